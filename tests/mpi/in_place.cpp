// SPDX-License-Identifier: Apache-2.0
/// Lent memory is read in place by ranks of the same host, and sent to others.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
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

/// Passes all on, and counts what is lent by other processes and read where it lies.
template <class Comm>
struct watching {
  using stream_type = typename Comm::stream_type;
  using memory_space = typename Comm::memory_space;

  Comm& comm;
  std::size_t bytes_in_place = 0;
  std::size_t bytes_lent = 0;

  [[nodiscard]] rank_id rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  template <class Post>
  void exchange(Post&& post) {
    comm.exchange(std::forward<Post>(post));
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires fssdp::lending_communicator<Comm> {
    comm.lend(std::forward<Post>(post), [&](std::span<std::span<std::byte const> const> lent) {
      for (auto const bytes : lent) {
        bytes_lent += bytes.size();
        if (is_of_another_process(bytes.data())) bytes_in_place += bytes.size();
      }
      visit(lent);
    });
  }
};

}  // namespace

TEST_CASE("a reduction of one round sums partials where they lie, and receives what is not lent",
          "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  constexpr auto elements = std::size_t{5000};
  auto const ranks = processes().size();
  auto const others = static_cast<std::size_t>(ranks - 1);
  auto const lends = processes().all(processes().lent() != nullptr ? 1 : 0);
  auto const lending = static_cast<std::size_t>(std::ranges::count(lends, 1));
  auto const layout = fssdp::block_layout{{.experts = ranks, .ranks = ranks}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  REQUIRE(plan.rounds() == 1);
  auto in_place = std::size_t{0};
  auto lent = std::size_t{0};
  auto scratch_bytes = std::size_t{0};
  auto const wrong = sum_over(ranks, {}, [&](mpi_communicator& comm) {
    auto watched = watching<mpi_communicator>{comm};
    auto scratch = fssdp::scratch_memory{};
    auto partials = fssdp::make_partials<float>(plan, comm.rank(), elements);
    auto gradients = fssdp::make_shard<float>(layout, comm.rank(), elements);
    auto differs = 0;
    for (int turn = 0; turn < 3; ++turn) {
      auto expected = 0.0F;
      for (int r = 0; r < ranks; ++r) expected += static_cast<float>(r + turn);
      std::fill_n(partials.tensors()[0].data, partials.slots() * partials.tensors()[0].stride,
                  static_cast<float>(comm.rank().value() + turn));
      fssdp::sparse_reduce_scatter(watched, plan, partials, gradients, {.scratch = &scratch});
      for (auto const value : gradients.tensors()[0][0]) differs += value == expected ? 0 : 1;
    }
    in_place = watched.bytes_in_place;
    lent = watched.bytes_lent;
    scratch_bytes = scratch.bytes();
    return differs;
  });
  REQUIRE(wrong == 0);
  auto const operands = 3 * others * elements * sizeof(float);
  for (auto const there : processes().all(lent)) REQUIRE(there == operands);
  for (auto const there : processes().all(scratch_bytes)) REQUIRE(there < elements);  // lists
  auto const all = processes().total(static_cast<long>(in_place));
  REQUIRE(static_cast<std::size_t>(all) == lending * operands);
}

TEST_CASE("borrowed memory of the same host is read in place", "[at_least_2]") {
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

TEST_CASE("a process that lends memory does not return before all borrowers have read it",
          "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = processes().size();
  REQUIRE(sum_over(ranks, {}, [&](mpi_communicator& comm) {
            auto const next = rank_id{(comm.rank().value() + 1) % ranks};
            auto const previous = rank_id{(comm.rank().value() + ranks - 1) % ranks};
            auto wrong = 0;
            for (int turn = 0; turn < 3; ++turn) {
              auto out = std::vector<int>(1000, comm.rank().value());
              auto visits = 0;
              comm.lend(
                  [&](auto& batch) {
                    batch.send(std::as_bytes(std::span{out}), next);
                    batch.borrow(4000, previous);
                  },
                  [&](std::span<std::span<std::byte const> const> lent) {
                    ++visits;
                    if (comm.rank().value() == turn % ranks)  // the others are long through
                      std::this_thread::sleep_for(std::chrono::milliseconds{50});
                    auto const* const values = reinterpret_cast<int const*>(lent[0].data());
                    wrong += static_cast<int>(1000 -
                                              std::count(values, values + 1000, previous.value()));
                  });
              std::ranges::fill(out, -1);
              wrong += visits == 1 ? 0 : 1000;
            }
            return wrong;
          }) == 0);
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
