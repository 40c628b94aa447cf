// SPDX-License-Identifier: Apache-2.0
/// Idle ports are matched with items, the most urgent first.
#include "fssdp/plan/port_group.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::detail::port_group;
using fssdp::detail::port_word;

namespace {

using match = std::tuple<int, int, int>;  // item, out, in
using matches = std::vector<match>;

/// A group with the bookkeeping of which port has and which wants which item.
struct trading_floor {
  int ports;
  port_group group;
  std::map<int, std::vector<port_word>> wanted;  // by item
  std::map<int, int> holders;
  std::vector<int> backlog;

  explicit trading_floor(int count)
      : ports{count}, group{count}, backlog(static_cast<std::size_t>(count)) {}

  void want(int item, std::vector<int> const& by) {
    auto& set = wanted[item];
    set.resize(fssdp::detail::words_for(ports));
    for (auto const port : by) fssdp::detail::include_port(set, port);
    group.expect(set);
  }
  void offer(int out, int item, int urgently = port_group::nobody) {
    auto& count = holders[item];
    count = std::max(count, 1);
    group.offer(out, item, 100 + item, wanted[item], count, urgently);
  }
  /// Who got together; both have the item then.
  matches bring_together() {
    auto found = matches{};
    group.bring_together(
        [&](int item, int in) { return fssdp::detail::has_port(wanted[item], in); },
        [&](int item) { return holders[item]; },
        [&](int in) { return backlog[static_cast<std::size_t>(in)]; },
        [&](port_group::match const& m) {
          REQUIRE(m.feeder == 100 + m.item);
          fssdp::detail::exclude_port(wanted[m.item], m.in);
          ++holders[m.item];
          found.emplace_back(m.item, m.out, m.in);
        });
    return found;
  }
};

}  // namespace

TEST_CASE("items are as rare as the power of two above their holders") {
  auto classes = std::vector<int>{};
  for (int holders = 1; holders <= 10; ++holders) classes.push_back(port_group::rarity(holders));
  REQUIRE(classes == std::vector{1, 2, 3, 3, 4, 4, 4, 4, 5, 5});
  REQUIRE(port_group::rarity(255) == port_group::classes - 1);
}

TEST_CASE("the rarest item goes first, then what waits longest") {
  auto floor = trading_floor{2};
  for (int item = 0; item < 4; ++item) floor.want(item, {1});
  floor.holders = {{0, 3}, {1, 2}, {2, 1}, {3, 1}};
  for (int item = 0; item < 4; ++item) floor.offer(0, item);
  auto order = std::vector<int>{};
  for (int i = 0; i < 4; ++i) {
    for (auto const& [item, out, in] : floor.bring_together()) order.push_back(item);
    floor.group.release(0, 1);
  }
  REQUIRE(order == std::vector{2, 3, 1, 0});
  REQUIRE(floor.bring_together().empty());
}

TEST_CASE("of equally rare items one goes to the port that still has the most to get") {
  auto floor = trading_floor{4};
  floor.want(0, {1, 2, 3});
  floor.want(1, {2});
  floor.offer(0, 0);
  REQUIRE(floor.group.to_come(2) == 2);
  REQUIRE(floor.bring_together() == matches{{0, 0, 2}});
  REQUIRE(floor.group.to_come(2) == 1);
  floor.group.satisfy(2);  // the other came by another way
  REQUIRE(floor.group.to_come(2) == 0);
}

TEST_CASE("an urgent item goes before a rare one, to the port with the smallest backlog") {
  auto floor = trading_floor{4};
  for (int item = 0; item < 3; ++item) floor.want(item, {1, 2, 3});
  floor.holders = {{0, 1}, {1, 4}, {2, 4}};
  floor.backlog = {0, 2, 1, 0};
  floor.offer(0, 0);
  floor.offer(0, 1, 1);
  floor.offer(0, 2, 2);
  REQUIRE(floor.bring_together() == matches{{2, 0, 2}});
  floor.group.release(0, 2);
  REQUIRE(floor.bring_together() == matches{{1, 0, 1}});
}

TEST_CASE("a port sends the rarest item that a receiver wants, then the lowest one") {
  auto floor = trading_floor{4};
  floor.want(0, {1});
  floor.want(7, {2});
  floor.want(5, {3});
  floor.holders = {{0, 2}, {7, 1}, {5, 1}};
  for (auto const item : {0, 7, 5}) floor.offer(0, item);
  REQUIRE(floor.bring_together() == matches{{5, 0, 3}});
  floor.group.release(0, 3);
  REQUIRE(floor.bring_together() == matches{{7, 0, 2}});
  floor.group.release(0, 2);
  REQUIRE(floor.bring_together() == matches{{0, 0, 1}});
}

TEST_CASE("of idle senders of an item the one that has sent less sends it") {
  auto floor = trading_floor{5};
  floor.want(0, {4});
  floor.want(1, {2});
  floor.want(2, {2});
  floor.offer(0, 0);
  REQUIRE(floor.bring_together() == matches{{0, 0, 4}});
  floor.group.release(0, 4);
  floor.offer(3, 1);
  REQUIRE(floor.bring_together() == matches{{1, 3, 2}});
  floor.offer(0, 2);  // while the receiver is busy
  floor.offer(1, 2);
  REQUIRE(floor.bring_together().empty());
  floor.group.release(3, 2);
  REQUIRE(floor.bring_together() == matches{{2, 1, 2}});
}

TEST_CASE("a piece that arrived another way is dropped, one that became common is no longer rare") {
  auto floor = trading_floor{2};
  for (int item = 0; item < 3; ++item) floor.want(item, {1});
  for (int item = 0; item < 3; ++item) floor.offer(0, item);
  fssdp::detail::exclude_port(floor.wanted[0], 1);  // got elsewhere
  floor.holders[1] = 9;                             // spread elsewhere
  REQUIRE(floor.bring_together() == matches{{2, 0, 1}});
  floor.group.release(0, 1);
  REQUIRE(floor.bring_together() == matches{{1, 0, 1}});
  floor.group.release(0, 1);
  REQUIRE(floor.bring_together().empty());
}

TEST_CASE("busy ports wait for their release, and send and receive at once") {
  auto floor = trading_floor{3};
  floor.want(0, {1, 2});
  floor.want(1, {0});
  floor.offer(0, 0);
  floor.offer(1, 1);
  REQUIRE(floor.bring_together() == matches{{0, 0, 1}, {1, 1, 0}});
  REQUIRE(floor.bring_together().empty());
  floor.group.release(1, 0);
  REQUIRE(floor.bring_together().empty());  // the sender of item 0 is busy
  floor.group.release(0, 1);
  REQUIRE(floor.bring_together() == matches{{0, 0, 2}});
}

TEST_CASE("ports beyond a word of bits are ports like others") {
  auto floor = trading_floor{130};
  floor.want(0, {63, 64, 129});
  floor.offer(128, 0);
  floor.offer(64, 0);
  auto all = matches{};
  for (int i = 0; i < 3; ++i) {
    for (auto const& found : floor.bring_together()) {
      all.push_back(found);
      floor.group.release(std::get<1>(found), std::get<2>(found));
    }
  }
  auto receivers = std::vector<int>{};
  for (auto const& [item, out, in] : all) receivers.push_back(in);
  std::ranges::sort(receivers);
  REQUIRE(receivers == std::vector{63, 64, 129});
}

TEST_CASE("no two ports stay idle that could serve each other") {
  for (std::uint64_t seed = 1; seed <= support::law_instances / 10; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const ports = draw.between(2, 9);
    auto const items = draw.between(1, 12);
    auto floor = trading_floor{ports};
    auto has = std::vector<std::vector<bool>>(static_cast<std::size_t>(items),
                                              std::vector<bool>(static_cast<std::size_t>(ports)));
    auto const at = [](int index) { return static_cast<std::size_t>(index); };
    for (int item = 0; item < items; ++item) {
      auto wanting = std::vector<int>{};
      auto const owner = draw.between(0, ports - 1);
      for (int port = 0; port < ports; ++port)
        if (port != owner && draw.chance(60)) wanting.push_back(port);
      floor.want(item, wanting);
      floor.offer(owner, item);
      has[at(item)][at(owner)] = true;
    }
    auto busy = matches{};
    auto left = 0;
    do {
      for (auto const& found : floor.bring_together()) busy.push_back(found);
      auto idle_pairs = 0;  // that should have been brought together
      auto sends = std::vector<bool>(at(ports));
      auto receives = sends;
      for (auto const& [item, out, in] : busy) {
        REQUIRE(!sends[at(out)]);
        REQUIRE(!receives[at(in)]);
        REQUIRE(has[at(item)][at(out)]);
        sends[at(out)] = receives[at(in)] = true;
      }
      left = 0;
      for (int item = 0; item < items; ++item)
        for (int in = 0; in < ports; ++in)
          if (fssdp::detail::has_port(floor.wanted[item], in)) {
            ++left;
            for (int out = 0; out < ports; ++out)
              idle_pairs += has[at(item)][at(out)] && !sends[at(out)] && !receives[at(in)] ? 1 : 0;
          }
      REQUIRE(idle_pairs == 0);
      if (busy.empty()) break;
      auto& done = busy[at(draw.between(0, static_cast<int>(busy.size()) - 1))];
      std::swap(done, busy.back());
      auto const [item, out, in] = busy.back();
      busy.pop_back();
      floor.group.release(out, in);
      has[at(item)][at(in)] = true;
      floor.offer(in, item);
    } while (true);
    REQUIRE(left == 0);
  }
}
