// SPDX-License-Identifier: Apache-2.0
/// What a rank lends is read where it lies, by those who can; who cannot gets it sent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "mpi/processes.hpp"

using fssdp::mpi_communicator;
using fssdp::rank_id;
using mpi_tests::processes;
using mpi_tests::sum_over;

namespace {

/// What the system says of the pages around an address: what may be done with them, and the file.
[[nodiscard]] std::string mapping_of(void const* address) {
  auto maps = std::ifstream{"/proc/self/maps"};
  auto const wanted = reinterpret_cast<std::uintptr_t>(address);
  for (auto line = std::string{}; std::getline(maps, line);) {
    auto begin = std::uintptr_t{0};
    auto end = std::uintptr_t{0};
    auto dash = char{};
    std::istringstream{line} >> std::hex >> begin >> dash >> end;
    if (begin <= wanted && wanted < end) return line;
  }
  return "none";
}
[[nodiscard]] bool is_of_another_process(void const* address) {
  auto const found = mapping_of(address);
  return found.find(" r--s ") != std::string::npos &&
         found.find("memfd:fssdp") != std::string::npos;
}

}  // namespace

TEST_CASE("what is borrowed from a rank that lends is looked at where it lies", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = processes().size();
  auto const lends = processes().all(processes().lent() != nullptr ? 1 : 0);
  auto const lending = std::ranges::count(lends, 1);
  auto in_place = 0L;
  REQUIRE(sum_over(ranks, {}, [&](mpi_communicator& comm) {
            auto const next = rank_id{(comm.rank().value() + 1) % ranks};
            auto const previous = rank_id{(comm.rank().value() + ranks - 1) % ranks};
            auto const out = std::vector<int>(1000, comm.rank().value());
            auto wrong = 0;
            comm.forward(
                [&](auto& batch) {
                  batch.send(std::as_bytes(std::span{out}), next);
                  batch.borrow(4000, previous);
                },
                [&](std::size_t, std::span<std::byte const> bytes, auto&) {
                  auto const* const values = reinterpret_cast<int const*>(bytes.data());
                  wrong +=
                      1000 - static_cast<int>(std::count(values, values + 1000, previous.value()));
                  auto const there = is_of_another_process(bytes.data());
                  wrong += there == (lends[previous.index()] == 1) ? 0 : 1;
                  in_place += there ? 1 : 0;
                });
            return wrong;
          }) == 0);
  REQUIRE(processes().total(in_place) == lending);
}

TEST_CASE("held, sent and borrowed messages of all sizes mix, in and out of lent memory",
          "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = std::min(processes().size(), 4);
  REQUIRE(sum_over(ranks, {.most_message_bytes = 5000}, [&](mpi_communicator& comm) {
            auto const me = comm.rank().value();
            auto const next = rank_id{(me + 1) % ranks};
            auto const previous = rank_id{(me + ranks - 1) % ranks};
            auto const sizes = std::vector<std::size_t>{0, 3, 200, 5000, 5001, 20000, 0, 70000};
            auto wrong = 0;
            for (int turn = 0; turn < 20; ++turn) {
              auto out = std::vector<std::vector<std::byte>>{};
              auto in = out;
              for (std::size_t i = 0; i < sizes.size(); ++i) {
                out.emplace_back(sizes[i], std::byte(i % 2 == 0 ? me + turn : 0));
                in.emplace_back(sizes[i]);
              }
              auto const check = [&](std::span<std::byte const> bytes, int from) {
                for (auto const value : bytes) wrong += value == std::byte(from + turn) ? 0 : 1;
              };
              comm.forward(
                  [&](auto& batch) {
                    for (std::size_t i = 0; i < sizes.size(); ++i) {
                      if (i % 2 == 0) {
                        batch.send(out[i], next);
                        batch.recv(in[i], previous);
                      } else {
                        batch.hold(out[i], next);
                        batch.borrow(sizes[i], previous);
                      }
                    }
                  },
                  [&](std::size_t i, std::span<std::byte const> bytes, auto& gate) {
                    check(bytes, previous.value());
                    if (i % 2 != 0) return;
                    std::ranges::fill(out[i + 1], std::byte(me + turn));
                    gate.release(i + 1);
                  });
            }
            return wrong;
          }) == 0);
}
