// SPDX-License-Identifier: Apache-2.0
/// Slow ports: when messages arrive, step by step without a clock; and threads
/// whose messages pass such ports.
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "contract/message_pattern.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/comm/thread/port_network.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::topology;
using fssdp::detail::port_network;

namespace {

using seconds = std::chrono::duration<double>;

/// Four ranks on two nodes. Bytes and seconds are powers of two: nothing is rounded.
[[nodiscard]] topology slow_topology(
    int nodes = 2, fssdp::network_interface network = fssdp::network_interface::per_rank) {
  return topology{
      {.nodes = nodes,
       .ranks = 4,
       .ports = {.inside_bytes_per_second = 512, .between_bytes_per_second = 256},
       .network = network,
       .cost = {
           .inside_latency_seconds = 0.25, .between_latency_seconds = 0.5, .port_seconds = 0}}};
}

/// A network, and a clock that the test sets.
class told_network {
 public:
  explicit told_network(topology topo) : network_{std::move(topo)} {}

  void offer(int from, int to, std::size_t bytes, double when) {
    network_.offer(rank_id{from}, bytes, {nullptr, 0, offered_, rank_id{to}, offered_}, at(when));
    ++offered_;
  }
  /// Offers a message that its receiver has named as its `turn`-th, and its sender as `number`.
  void offer_in_turn(int from, int to, std::size_t turn, std::size_t number) {
    turns_.resize(offered_ + 1);
    turns_[offered_] = turn;
    network_.offer(rank_id{from}, 512, {nullptr, 0, offered_, rank_id{to}, number}, at(0));
    ++offered_;
  }
  [[nodiscard]] auto turn_of() const {
    return [this](port_network::address const& where) {
      return where.index < turns_.size() ? turns_[where.index] : std::size_t{0};
    };
  }
  /// What arrives until nothing is left, each at the moment at which it happens.
  using arrivals = std::vector<std::pair<std::size_t, double>>;
  [[nodiscard]] arrivals all() {
    auto seen = arrivals{};
    while (network_.next() != port_network::clock::time_point::max()) {
      auto const now = network_.next();
      network_.advance(
          now,
          [&](auto const& where) {
            seen.emplace_back(where.index, seconds{now.time_since_epoch()}.count());
          },
          turn_of());
    }
    return seen;
  }
  /// How many arrive when the time is told.
  int tell(double now) {
    auto count = 0;
    network_.advance(
        at(now), [&](auto const&) { ++count; }, turn_of());
    return count;
  }
  void clear() { network_.clear(); }

 private:
  static port_network::clock::time_point at(double when) {
    return port_network::clock::time_point{
        std::chrono::duration_cast<port_network::clock::duration>(seconds{when})};
  }
  port_network network_;
  std::size_t offered_ = 0;
  std::vector<std::size_t> turns_;
};

using arrivals = told_network::arrivals;

}  // namespace

TEST_CASE("a message arrives when its bytes have passed and the latency is over") {
  auto network = told_network{slow_topology()};
  network.offer(0, 1, 512, 0);
  network.offer(1, 2, 512, 8);
  REQUIRE(network.all() == arrivals{{0, 1.25}, {1, 10.5}});
}

TEST_CASE("a message keeps its ports busy for what it costs, and the slower port counts") {
  auto network = told_network{topology{{fssdp::node_id{0}, fssdp::node_id{0}},
                                       {{512, 1}, {256, 1}},
                                       fssdp::network_interface::per_rank,
                                       {.inside_latency_seconds = 0, .port_seconds = 0.5}}};
  network.offer(0, 1, 512, 0);
  network.offer(0, 1, 256, 0);
  REQUIRE(network.all() == arrivals{{0, 2.5}, {1, 4.0}});
}

TEST_CASE("one port serves one message at a time, in the order of the offers") {
  auto const into_one = GENERATE(0, 1);
  auto network = told_network{slow_topology(1)};
  for (int peer = 1; peer < 4; ++peer)
    into_one == 1 ? network.offer(peer, 0, 512, 0) : network.offer(0, peer, 512, 0);
  REQUIRE(network.all() == arrivals{{0, 1.25}, {1, 2.25}, {2, 3.25}});
}

TEST_CASE("both directions, and the ports inside and between nodes, are apart") {
  auto network = told_network{slow_topology()};
  network.offer(0, 1, 512, 0);
  network.offer(1, 0, 512, 0);
  network.offer(0, 2, 512, 0);
  REQUIRE(network.all() == arrivals{{0, 1.25}, {1, 1.25}, {2, 2.5}});
}

TEST_CASE("ranks of a node that share an interface wait for each other") {
  auto network = told_network{slow_topology(2, fssdp::network_interface::per_node)};
  network.offer(0, 2, 512, 0);
  network.offer(1, 3, 512, 0);
  REQUIRE(network.all() == arrivals{{0, 2.5}, {1, 4.5}});
}

TEST_CASE(
    "a message that can go overtakes one that waits, and ports idle at once serve each other") {
  auto network = told_network{slow_topology(1)};
  network.offer(0, 1, 512, 0);
  network.offer(2, 3, 512, 0);
  network.offer(0, 3, 512, 0);  // waits for both
  network.offer(0, 1, 512, 0);  // may not go before it
  network.offer(1, 2, 512, 0);  // may
  REQUIRE(network.all() == arrivals{{0, 1.25}, {1, 1.25}, {4, 1.25}, {2, 2.25}, {3, 3.25}});
}

TEST_CASE("a port receives and sends messages in the order in which they were posted") {
  auto network = told_network{slow_topology(1)};
  network.offer_in_turn(1, 0, 3, 0);
  network.offer_in_turn(2, 0, 2, 0);
  network.offer_in_turn(3, 0, 1, 0);
  REQUIRE(network.all() == arrivals{{2, 1.25}, {1, 2.25}, {0, 3.25}});
  auto other = told_network{slow_topology(1)};
  other.offer_in_turn(0, 1, 1, 2);
  other.offer_in_turn(0, 2, 1, 1);
  other.offer_in_turn(0, 3, 1, 0);
  REQUIRE(other.all() == arrivals{{2, 1.25}, {1, 2.25}, {0, 3.25}});
}

TEST_CASE("no port stays idle for a message that has to wait elsewhere") {
  auto network = told_network{slow_topology(1)};
  network.offer_in_turn(0, 1, 1, 0);
  network.offer_in_turn(0, 2, 1, 1);  // first for rank 2, but rank 0 sends the other one first
  network.offer_in_turn(3, 2, 2, 0);
  REQUIRE(network.all() == arrivals{{0, 1.25}, {2, 1.25}, {1, 2.25}});
}

TEST_CASE("a message without bytes is there at once, on busy ports, too") {
  auto network = told_network{slow_topology(1)};
  network.offer(0, 1, 512, 0);
  network.offer(0, 1, 0, 0.5);
  REQUIRE(network.all() == arrivals{{1, 0.5}, {0, 1.25}});
}

TEST_CASE("a transfer that is registered late still takes its full time") {
  auto network = told_network{slow_topology(1)};
  network.offer(0, 1, 512, 0);
  network.offer(0, 1, 512, 2);  // the ports are idle since 1, which nobody has noticed
  network.offer(2, 3, 512, 2);
  REQUIRE(network.tell(2.5) == 1);
  REQUIRE(network.all() == arrivals{{1, 3.25}, {2, 3.25}});
  network.offer(0, 1, 512, 4);
  network.offer(0, 1, 512, 4);
  REQUIRE(network.tell(6.25) == 2);
}

TEST_CASE("a cancelled message does not arrive, and keeps no port busy") {
  auto network = told_network{slow_topology(1)};
  network.offer(0, 1, 512, 0);
  network.offer(0, 1, 512, 0);
  REQUIRE(network.tell(0.5) == 0);
  network.clear();
  network.offer(0, 1, 512, 0.5);
  REQUIRE(network.all() == arrivals{{2, 1.75}});
}

TEST_CASE("ports for another number of ranks are refused") {
  auto const make = [](int ranks) {
    return fssdp::thread_world{{.ranks = ranks, .ports = slow_topology()}};
  };
  REQUIRE_THROWS_AS(make(3), fssdp::argument_error);
  REQUIRE_THROWS_AS(make(5), fssdp::argument_error);
  REQUIRE(make(4).size() == 4);
}

TEST_CASE("a message with a huge latency is in flight, and does not arrive at once") {
  auto network =
      port_network{topology{{.ranks = 2,
                             .ports = {.inside_bytes_per_second = 1e-3},  // the slowest of all
                             .cost = {.inside_latency_seconds = 1e6}}}};
  auto const now = port_network::clock::now();
  network.offer(rank_id{0}, std::size_t{1} << 40U, {nullptr, 1, 0, rank_id{1}, 0}, now);
  auto arrived = 0;
  network.advance(
      now, [&](auto const&) { ++arrived; }, [](auto const&) { return std::size_t{1}; });
  REQUIRE(arrived == 0);
  REQUIRE(network.next() > now + std::chrono::hours{24 * 365});
}

TEST_CASE("messages of any size arrive through ports as they were sent") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const ranks = draw.between(1, 5);
    auto const patterns =
        std::vector<contract::message_pattern>{{ranks, draw}, {ranks, 2, 0}, {ranks, draw}};
    auto world = fssdp::thread_world{
        {.ranks = ranks,
         .ports = topology{{.nodes = draw.between(1, ranks), .ranks = ranks, .cost = {}}}}};
    auto const wrong = support::on_all_ranks(world, [&](thread_communicator& comm) {
      auto count = support::differences{};
      for (int turn = 0; turn < 3; ++turn) {
        auto messages =
            contract::rank_messages{patterns[static_cast<std::size_t>(turn)], comm.rank(), turn};
        comm.exchange([&](auto& batch) { messages.name(batch); });
        count += messages.wrong();
      }
      return count;
    });
    REQUIRE(support::total(wrong) == 0);
  }
}

TEST_CASE("forwarded messages take time at every port") {
  // 1/64 s for the bytes and 1/128 s for the latency, twice, one after the other.
  auto world = fssdp::thread_world{
      {.ranks = 3,
       .ports = topology{{.ranks = 3,
                          .ports = {.inside_bytes_per_second = 65536},
                          .cost = {.inside_latency_seconds = 1.0 / 128, .port_seconds = 0}}}}};
  auto const start = std::chrono::steady_clock::now();
  auto const got = support::on_all_ranks(world, [](thread_communicator& comm) {
    auto const me = comm.rank().value();
    auto content = std::vector<std::byte>(1024, std::byte(me));
    comm.forward(
        [&](auto& batch) {
          if (me == 0) batch.send(content, rank_id{1});
          if (me == 1) batch.hold(content, rank_id{2});
          if (me != 0) batch.recv(content, rank_id{me - 1});
        },
        [&](std::size_t, std::span<std::byte const>, auto& gate) {
          if (me == 1) gate.release(0);
        });
    return content;
  });
  REQUIRE(std::chrono::steady_clock::now() - start >= seconds{3.0 / 64});
  REQUIRE(got == std::vector(3, std::vector<std::byte>(1024)));
}

TEST_CASE("a failure cancels messages in flight, and the ports are idle again") {
  using namespace std::chrono_literals;
  auto topo = topology{{.ranks = 3, .ports = {.inside_bytes_per_second = 1e-3}}};
  auto world = fssdp::thread_world{{.ranks = 3, .deadline = 1h, .ports = topo}};
  auto const send_one = [](thread_communicator& comm, std::size_t bytes) {
    auto content = std::vector<std::byte>(bytes);
    comm.exchange([&](auto& batch) {
      if (comm.rank() == rank_id{0}) batch.send(content, rank_id{1});
      if (comm.rank() == rank_id{1}) batch.recv(content, rank_id{0});
    });
  };
  for (int turn = 0; turn < 3; ++turn) {
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      send_one(comm, 0);
      if (comm.rank() == rank_id{2}) throw fssdp::injected_fault{"out of order"};
      send_one(comm, 10'000'000);  // takes longer than a clock counts
    });
    REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
    REQUIRE(support::failed_rank(result.of_rank[0]) == 2);
    REQUIRE(support::failed_rank(result.of_rank[1]) == 2);
  }
}
