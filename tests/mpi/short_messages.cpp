// SPDX-License-Identifier: Apache-2.0
/// Short messages to a peer follow their header in one message of MPI.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "mpi/processes.hpp"

using fssdp::first_n;
using fssdp::mpi_communicator;
using fssdp::rank_id;
using fssdp::detail::mpi_packet;
using mpi_tests::lacks_processes;
using mpi_tests::processes;
using mpi_tests::sum_over;

namespace {

/// The sizes of what rank 0 of two sends to rank 1, as MPI gets it.
[[nodiscard]] std::vector<int> sent_for(std::span<std::size_t const> sizes, bool last_is_held) {
  auto const self = rank_id{0};
  auto const lending = fssdp::detail::mpi_lending{MPI_COMM_SELF, std::span{&self, 1}, 2, nullptr};
  auto const part_bytes = std::vector<std::size_t>(2, std::size_t{1} << 20U);
  auto batch =
      fssdp::detail::mpi_batch{self, fssdp::detail::group_ranks{2}, part_bytes, 1000, lending};
  auto const memory = std::vector<std::byte>(*std::ranges::max_element(sizes));
  batch.clear(1);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    batch.send(std::span{memory}.first(sizes[i]), rank_id{1},
               last_is_held && i + 1 == sizes.size());
  batch.lay_out();
  auto sent = std::vector<int>{};
  for (auto const& part : batch.parts()) sent.push_back(part.bytes);
  return sent;
}

/// The sizes of the messages from one rank to another: few bytes, as many as follow a header, more.
[[nodiscard]] std::vector<std::size_t> sizes_between(rank_id from, rank_id to) {
  constexpr auto most = mpi_packet::most_packed;
  auto const kinds = std::array<std::vector<std::size_t>, 5>{
      {{0}, {1, 0, 2}, {most - 10, 10}, {most - 10, 11}, {3, 2 * most, 4}}};
  return kinds[(3 * from.index() + to.index()) % kinds.size()];
}
[[nodiscard]] std::byte content(rank_id from, rank_id to, std::size_t message, std::size_t at) {
  return static_cast<std::byte>(101 * from.index() + 37 * to.index() + 7 * message + at);
}

/// All messages of one rank to all others, or from them.
struct messages_of {
  struct one {
    rank_id peer;
    std::vector<std::byte> bytes;
  };
  std::vector<one> all;

  messages_of(mpi_communicator const& comm, bool sends) {
    for (auto const peer : first_n<rank_id>(comm.size())) {
      if (peer == comm.rank()) continue;
      auto const from = sends ? comm.rank() : peer;
      auto const to = sends ? peer : comm.rank();
      auto const sizes = sizes_between(from, to);
      for (std::size_t m = 0; m < sizes.size(); ++m) {
        all.push_back({peer, std::vector<std::byte>(sizes[m])});
        for (std::size_t i = 0; i < sizes[m]; ++i) all.back().bytes[i] = content(from, to, m, i);
      }
    }
  }
};

}  // namespace

TEST_CASE("short messages are sent with their header, as one message", "[mpi]") {
  constexpr auto header = static_cast<int>(sizeof(fssdp::detail::mpi_header));
  constexpr auto most = mpi_packet::most_packed;
  auto const sent = [&](std::vector<std::size_t> const& sizes, bool last_is_held = false) {
    return sent_for(sizes, last_is_held);
  };
  CHECK(processes().size() > 0);
  CHECK(sent({100, 0, 200}) == std::vector<int>{header + 300});
  CHECK(sent({most}) == std::vector<int>{static_cast<int>(mpi_packet::bytes)});
  CHECK(sent({most, 1}) == std::vector<int>{header, static_cast<int>(most), 1});
  CHECK(sent({100, 200}, true) == std::vector<int>{header, 100, 200});
}

TEST_CASE("messages of all lengths arrive, whether they follow their header or not",
          "[mpi][at_least_2]") {
  if (lacks_processes(2)) return;
  auto const wrong = sum_over(processes().size(), {}, [&](mpi_communicator& comm) {
    auto const sent = messages_of{comm, true};
    auto const expected = messages_of{comm, false};
    auto differences = 0;
    for (int step = 0; step < 4; ++step) {  // from the third on, requests are persistent
      auto received = expected;
      for (auto& m : received.all) std::ranges::fill(m.bytes, std::byte{0});
      comm.exchange([&](auto& batch) {
        for (auto& m : received.all) batch.recv(m.bytes, m.peer);
        for (auto const& m : sent.all) batch.send(m.bytes, m.peer);
      });
      auto borrowed = std::size_t{0};
      comm.forward(
          [&](auto& batch) {
            for (auto const& m : expected.all) batch.borrow(m.bytes.size(), m.peer);
            for (auto const& m : sent.all) batch.send(m.bytes, m.peer);
          },
          [&](std::size_t message, std::span<std::byte const> bytes, auto&) {
            ++borrowed;
            if (!std::ranges::equal(bytes, expected.all[message].bytes)) ++differences;
          });
      if (borrowed != expected.all.size()) ++differences;
      for (std::size_t m = 0; m < expected.all.size(); ++m)
        if (received.all[m].bytes != expected.all[m].bytes) ++differences;
    }
    return differences;
  });
  CHECK(wrong == 0);
}
