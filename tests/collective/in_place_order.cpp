// SPDX-License-Identifier: Apache-2.0
/// The order of writes to memory that is still read: what arrives, what is sent and what is copied is
/// right, byte for byte, and an order that sets nothing aside is not.
#include "fssdp/collective/in_place_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::detail::byte_interval;
using fssdp::detail::in_place_order;
using fssdp::detail::in_place_work;

namespace {

using moves_of_order = std::vector<std::vector<in_place_order::move>>;

constexpr auto nowhere = in_place_order::none;
constexpr auto is_copied = in_place_order::how::copied;
constexpr auto is_aside = in_place_order::how::aside;
constexpr auto is_placed = in_place_order::how::placed;

[[nodiscard]] byte_interval bytes_at(std::size_t begin, std::size_t count) {
  return {begin, begin + count};
}
/// The moves before each step and after the last, one wave behind the other.
[[nodiscard]] moves_of_order moves_by_step(in_place_work const& work, in_place_order const& order) {
  auto lists = moves_of_order(work.steps + 1);
  for (auto const& wave : order.waves)
    lists[wave.before].insert(lists[wave.before].end(), wave.moves.begin(), wave.moves.end());
  return lists;
}

/// Reads and writes in a memory of some bytes. What is sent and copied overlaps in any way; what is
/// written does not.
[[nodiscard]] in_place_work random_work(support::dice& draw, std::size_t memory) {
  auto work = in_place_work{};
  work.steps = static_cast<std::size_t>(draw.between(0, 5));
  auto const some_step = [&] {
    return static_cast<std::size_t>(draw.between(0, static_cast<int>(work.steps) - 1));
  };
  auto const source = [&](std::size_t bytes) {
    auto const grain = draw.chance(50) ? std::size_t{1} : bytes;  // as slots, or anywhere
    auto const most = static_cast<int>((memory - bytes) / grain);
    return bytes_at(grain * static_cast<std::size_t>(draw.between(0, most)), bytes);
  };
  auto const even = draw.chance(50);
  auto const size = [&] { return static_cast<std::size_t>(even ? 16 : draw.between(1, 40)); };
  auto targets = std::vector<byte_interval>{};
  for (auto at = std::size_t{0};;) {
    if (draw.chance(20)) at += static_cast<std::size_t>(draw.between(1, 20));
    auto const bytes = size();
    if (at + bytes > memory) break;
    targets.push_back(bytes_at(at, bytes));
    at += bytes;
  }
  draw.shuffle(targets);
  for (auto const& target : targets)
    if (draw.chance(work.steps == 0 ? 0 : 50))
      work.arrivals.push_back({target, some_step()});
    else if (auto const from = source(target.bytes()); from != target && draw.chance(80))
      work.copies.push_back({from, target});
  if (work.steps != 0)
    for (int i = 0; i < draw.between(0, 20); ++i)
      work.sends.push_back({source(size()), some_step(), draw.chance(30)});
  return work;
}

/// The memory of a rank while it keeps to an order. A byte is a number that says where it is from.
class memory_in_order {
 public:
  memory_in_order(in_place_work const& work, in_place_order const& order, std::size_t size)
      : work_{work}, order_{order}, memory_(size), staging_(order.staging_bytes, -1) {
    for (std::size_t i = 0; i < size; ++i) memory_[i] = original(i);
  }

  [[nodiscard]] static int original(std::size_t i) { return static_cast<int>(i); }
  [[nodiscard]] static int arriving(std::size_t arrival, std::size_t i) {
    return static_cast<int>(1'000'000 + 1000 * arrival + i);
  }
  [[nodiscard]] int at(std::size_t i) const { return memory_[i]; }

  void apply(in_place_order::move const& move) {
    auto const& to = move.arrives ? work_.arrivals[move.item].to : work_.copies[move.item].to;
    auto* const from = move.how == is_placed ? staging_.data() + move.at
                                             : memory_.data() + work_.copies[move.item].from.begin;
    auto* const into = move.how == is_aside ? staging_.data() + move.at : memory_.data() + to.begin;
    std::copy_n(std::vector<int>(from, from + to.bytes()).data(), to.bytes(), into);
  }
  void receive(std::size_t arrival) {
    auto* const into = order_.landing[arrival] == nowhere
                           ? memory_.data() + work_.arrivals[arrival].to.begin
                           : staging_.data() + order_.landing[arrival];
    for (std::size_t i = 0; i < work_.arrivals[arrival].to.bytes(); ++i)
      into[i] = arriving(arrival, i);
  }
  friend bool operator==(memory_in_order const& a, memory_in_order const& b) {
    return a.memory_ == b.memory_ && a.staging_ == b.staging_;
  }

 private:
  in_place_work const& work_;
  in_place_order const& order_;
  std::vector<int> memory_;
  std::vector<int> staging_;
};

/// How much is wrong if an order is kept to: bytes that are sent, bytes in the end, and waves whose
/// moves are not the same in another order. All that arrives in a step is there before anything is
/// sent.
[[nodiscard]] std::size_t wrong_by_order(in_place_work const& work, in_place_order const& order,
                                         std::size_t size) {
  auto memory = memory_in_order{work, order, size};
  auto wrong = std::size_t{0};
  auto const send = [&](std::size_t step, bool converted) {
    for (auto const& one : work.sends)
      if (one.step == step && one.is_converted == converted)
        for (auto i = one.from.begin; i < one.from.end; ++i)
          wrong += memory.at(i) == memory_in_order::original(i) ? 0U : 1U;
  };
  auto wave = order.waves.begin();
  for (std::size_t step = 0; step <= work.steps; ++step) {
    for (; wave != order.waves.end() && wave->before == step; ++wave) {
      auto backwards = std::vector<memory_in_order>{memory};
      for (auto move = wave->moves.rbegin(); move != wave->moves.rend(); ++move)
        backwards[0].apply(*move);
      for (auto const& move : wave->moves) memory.apply(move);
      wrong += memory == backwards[0] ? 0U : 1U;
    }
    if (step == work.steps) break;
    send(step, true);
    for (std::size_t a = 0; a < work.arrivals.size(); ++a)
      if (work.arrivals[a].step == step) memory.receive(a);
    send(step, false);
  }
  auto expected = std::vector<int>(size);
  for (std::size_t i = 0; i < size; ++i) expected[i] = memory_in_order::original(i);
  for (std::size_t a = 0; a < work.arrivals.size(); ++a)
    for (std::size_t i = 0; i < work.arrivals[a].to.bytes(); ++i)
      expected[work.arrivals[a].to.begin + i] = memory_in_order::arriving(a, i);
  for (auto const& copy : work.copies)
    for (std::size_t i = 0; i < copy.to.bytes(); ++i)
      expected[copy.to.begin + i] = memory_in_order::original(copy.from.begin + i);
  for (std::size_t i = 0; i < size; ++i) wrong += memory.at(i) == expected[i] ? 0U : 1U;
  return wrong;
}

/// The same order without a staging area: all lands where it belongs, all copies are made at once.
[[nodiscard]] in_place_order direct_order(in_place_work const& work) {
  auto order = in_place_order{};
  order.landing.assign(work.arrivals.size(), nowhere);
  for (std::size_t copy = 0; copy < work.copies.size(); ++copy)
    order.waves.push_back({0, {{is_copied, false, copy, nowhere}}});
  return order;
}

/// A slot of 64 bytes.
[[nodiscard]] byte_interval slot_bytes(std::size_t slot) { return bytes_at(64 * slot, 64); }

}  // namespace

TEST_CASE("an order in place sends, copies and places the right bytes", "[collective]") {
  constexpr auto size = std::size_t{300};
  auto wrong_without = 0;
  for (int seed = 0; seed < 4 * support::law_instances; ++seed) {
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const work = random_work(draw, size);
    CAPTURE(seed);
    REQUIRE(wrong_by_order(work, order_in_place(work), size) == 0);
    wrong_without += wrong_by_order(work, direct_order(work), size) == 0 ? 0 : 1;
  }
  REQUIRE(2 * wrong_without > support::law_instances);  // else the law could not fail
}

TEST_CASE("what lands too early, is written too early or lies elsewhere is found to be wrong",
          "[collective]") {
  constexpr auto size = std::size_t{300};
  auto landings = 0;
  auto placings = 0;
  auto found = 0;
  for (int seed = 0; seed < support::law_instances; ++seed) {
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const work = random_work(draw, size);
    auto const order = order_in_place(work);
    CAPTURE(seed);
    for (std::size_t a = 0; a < order.landing.size(); ++a) {
      if (order.landing[a] == nowhere) continue;
      auto early = order;
      early.landing[a] = nowhere;
      for (auto& wave : early.waves)
        std::erase_if(wave.moves, [&](auto const& move) { return move.arrives && move.item == a; });
      ++landings;
      REQUIRE(wrong_by_order(work, early, size) != 0);
    }
    for (std::size_t w = 1; w < order.waves.size(); ++w) {
      if (order.waves[w].before == order.waves[w - 1].before) continue;
      if (std::ranges::all_of(order.waves[w].moves,
                              [](auto const& move) { return move.how == is_aside; }))
        continue;  // that is never too early
      auto early = order;
      early.waves[w].before = early.waves[w - 1].before;
      ++placings;
      found += wrong_by_order(work, early, size) == 0 ? 0 : 1;
    }
  }
  REQUIRE(landings > 0);
  REQUIRE(found == placings);
}

TEST_CASE("nothing is set aside where nothing overlaps, and copies are made at once",
          "[collective]") {
  auto work = in_place_work{};
  work.steps = 2;
  work.sends = {{slot_bytes(0), 0}, {slot_bytes(1), 1}};
  work.arrivals = {{slot_bytes(4), 0}, {slot_bytes(5), 1}};
  work.copies = {{slot_bytes(0), slot_bytes(6)}, {slot_bytes(1), slot_bytes(7)}};
  auto const order = order_in_place(work);
  CHECK(order.staging_bytes == 0);
  CHECK(order.landing == std::vector{nowhere, nowhere});
  CHECK(moves_by_step(work, order) ==
        moves_of_order{{{is_copied, false, 0, nowhere}, {is_copied, false, 1, nowhere}}, {}, {}});
}

TEST_CASE("of two ranks that swap a slot each sets one aside", "[collective]") {
  auto work = in_place_work{};
  work.steps = 1;
  work.sends = {{slot_bytes(0), 0}};
  work.arrivals = {{slot_bytes(0), 0}};
  auto const order = order_in_place(work);
  CHECK(order.staging_bytes == 64);
  CHECK(order.landing == std::vector<std::size_t>{0});
  CHECK(moves_by_step(work, order) == moves_of_order{{}, {{is_placed, true, 0, 0}}});
  SECTION("not if what it sends is converted first") {
    work.sends[0].is_converted = true;
    auto const converted = order_in_place(work);
    CHECK(converted.staging_bytes == 0);
    CHECK(converted.landing == std::vector{nowhere});
  }
}

TEST_CASE("of three ranks in a ring of two steps the one that receives first sets one aside",
          "[collective]") {
  auto first = in_place_work{};  // receives in step 0 what it sends in step 1
  first.steps = 2;
  first.sends = {{slot_bytes(0), 1}};
  first.arrivals = {{slot_bytes(0), 0}};
  CHECK(moves_by_step(first, order_in_place(first)) ==
        moves_of_order{{}, {}, {{is_placed, true, 0, 0}}});
  auto other = in_place_work{};  // has sent in step 0 what it receives in step 1
  other.steps = 2;
  other.sends = {{slot_bytes(0), 0}};
  other.arrivals = {{slot_bytes(0), 1}};
  CHECK(order_in_place(other).staging_bytes == 0);
}

TEST_CASE("of copies in a ring one is set aside, those in a row go from the end on",
          "[collective]") {
  auto ring = in_place_work{};
  ring.copies = {{slot_bytes(0), slot_bytes(1)},
                 {slot_bytes(1), slot_bytes(2)},
                 {slot_bytes(2), slot_bytes(0)}};
  auto const order = order_in_place(ring);
  CHECK(order.staging_bytes == 64);
  CHECK(moves_by_step(ring, order) == moves_of_order{{{is_aside, false, 0, 0},
                                                      {is_copied, false, 2, nowhere},
                                                      {is_copied, false, 1, nowhere},
                                                      {is_placed, false, 0, 0}}});
  auto row = ring;
  row.copies[2].to = slot_bytes(3);
  auto const of_row = order_in_place(row);
  CHECK(of_row.staging_bytes == 0);
  CHECK(moves_by_step(row, of_row) == moves_of_order{{{is_copied, false, 2, nowhere},
                                                      {is_copied, false, 1, nowhere},
                                                      {is_copied, false, 0, nowhere}}});
}

TEST_CASE("elements of half the size in the same memory take one chunk beside it", "[collective]") {
  auto work = in_place_work{};  // slots of 64 bytes become slots of 32
  for (std::size_t slot = 0; slot < 4; ++slot)
    work.copies.push_back({slot_bytes(slot), bytes_at(32 * slot, 32)});
  auto const order = order_in_place(work);
  CHECK(order.staging_bytes == 64);  // 32, in whole lines
  CHECK(moves_by_step(work, order) == moves_of_order{{{is_aside, false, 0, 0},
                                                      {is_placed, false, 0, 0},
                                                      {is_copied, false, 1, nowhere},
                                                      {is_copied, false, 2, nowhere},
                                                      {is_copied, false, 3, nowhere}}});
}
