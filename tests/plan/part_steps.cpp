// SPDX-License-Identifier: Apache-2.0
/// Steps in place: every part is in one of them, none brings more than a chunk, and rings of chunks
/// close in as few as may be.
#include "fssdp/plan/part_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/plan/part_senders.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/random_distribution.hpp"

using fssdp::distribution;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::detail::blocked_writes;
using fssdp::detail::byte_interval;
using fssdp::detail::local_part;
using fssdp::detail::sent_part;
using fssdp::detail::slots_in_place;

namespace {

using lists_of_parts = std::vector<std::vector<std::size_t>>;

/// The parts of tensors of some size between two distributions.
struct moving_parts {
  std::vector<sent_part> sent;
  std::vector<std::vector<local_part>> local;
  slots_in_place slots;

  moving_parts(distribution const& from, distribution const& to, std::size_t elements)
      : local(static_cast<std::size_t>(from.ranks())),
        slots{fssdp::slice_elements(elements, from.slices()),
              fssdp::slice_elements(elements, to.slices()), 4, 4} {
    auto const topo = fssdp::topology{{.nodes = 1, .ranks = from.ranks()}};
    fssdp::detail::part_senders{from, to, topo}.find(
        elements, [this](sent_part const& part) { sent.push_back(part); },
        [this](rank_id rank, local_part const& part) { local[rank.index()].push_back(part); });
  }
  [[nodiscard]] lists_of_parts steps() const {
    return fssdp::detail::part_steps{sent, local, slots}.take();
  }
};

/// Whole experts in the slots of each rank.
[[nodiscard]] distribution experts_in(int experts, std::vector<std::vector<int>> const& slots) {
  auto lists = std::vector<std::vector<fssdp::chunk_id>>{};
  for (auto const& list : slots) {
    auto& chunks = lists.emplace_back();
    for (auto const expert : list) chunks.emplace_back(expert_id{expert});
  }
  return {experts, 1, std::move(lists)};
}
[[nodiscard]] lists_of_parts steps_between(std::vector<std::vector<int>> const& from,
                                           std::vector<std::vector<int>> const& to, int experts) {
  return moving_parts{experts_in(experts, from), experts_in(experts, to), 10}.steps();
}

}  // namespace

TEST_CASE("reads and writes that overlap are found as by trying all pairs") {
  for (int seed = 0; seed < support::law_instances / 5 + 20; ++seed) {
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const some = [&] {
      auto list = std::vector<byte_interval>(static_cast<std::size_t>(draw.between(0, 20)));
      for (auto& one : list) {
        one.begin = static_cast<std::size_t>(draw.between(0, 100));
        one.end = one.begin + static_cast<std::size_t>(draw.between(1, draw.chance(10) ? 90 : 9));
      }
      return list;
    };
    auto const reads = some();
    auto const writes = some();
    auto blocked = blocked_writes{reads, writes};
    auto left = std::vector<std::size_t>(writes.size());
    CAPTURE(seed);
    for (std::size_t write = 0; write < writes.size(); ++write) {
      auto expected = std::vector<std::size_t>{};
      for (std::size_t read = 0; read < reads.size(); ++read)
        if (reads[read].overlaps(writes[write])) expected.push_back(read);
      auto const found = blocked.readers(write);
      auto readers = std::vector<std::size_t>(found.begin(), found.end());
      std::ranges::sort(readers);
      REQUIRE(readers == expected);
      left[write] = expected.size();
    }
    for (std::size_t read = 0; read < reads.size(); ++read) {
      blocked.finish(read, [&](std::size_t write) { --left[write]; });
      for (std::size_t write = 0; write < writes.size(); ++write)
        REQUIRE(blocked.left(write) == left[write]);
    }
    REQUIRE(std::ranges::all_of(left, [](auto count) { return count == 0; }));
  }
}

TEST_CASE("each part is in one step, and a step brings a chunk to a rank at most") {
  for (int seed = 0; seed < support::law_instances / 5 + 20; ++seed) {
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const ranks = draw.between(2, 6);
    auto const experts = draw.between(1, 10);
    auto const from = support::random_distribution(draw, experts, ranks, true);
    auto const to = support::random_distribution(draw, experts, ranks, false);
    auto const parts = moving_parts{from, to, static_cast<std::size_t>(draw.between(1, 50))};
    auto times = std::vector<int>(parts.sent.size());
    CAPTURE(seed);
    for (auto const& step : parts.steps()) {
      REQUIRE(!step.empty());
      auto in = std::vector<std::size_t>(static_cast<std::size_t>(ranks));
      auto out = in;
      for (auto const part : step) {
        ++times[part];
        out[parts.sent[part].source.index()] += 4 * parts.sent[part].elements;
        for (auto const& target : parts.sent[part].targets)
          in[target.first.index()] += 4 * parts.sent[part].elements;
      }
      REQUIRE(std::ranges::max(in) <= parts.slots.chunk());
      REQUIRE(std::ranges::max(out) <= parts.slots.chunk());
    }
    REQUIRE(times == std::vector<int>(times.size(), 1));
  }
}

TEST_CASE("rings close in one step if they are on each rank once") {
  CHECK(steps_between({{0}, {1}}, {{1}, {0}}, 2) == lists_of_parts{{0, 1}});
  CHECK(steps_between({{0}, {1}, {2}}, {{2}, {0}, {1}}, 3) == lists_of_parts{{0, 1, 2}});
  // Two rings between the same ranks, and one that is on each of them twice.
  CHECK(steps_between({{0, 1}, {2, 3}}, {{2, 3}, {0, 1}}, 4).size() == 2);
  CHECK(steps_between({{0, 1}, {2, 3}}, {{2, 3}, {1, 0}}, 4).size() == 2);
}

TEST_CASE("what lands in an empty slot goes first, and what has left makes room for others") {
  // Expert 0 goes to an empty slot, 1 to the one of 0, and 2 to that of 1.
  CHECK(steps_between({{0}, {1}, {2}, {}}, {{1}, {2}, {}, {0}}, 3) == lists_of_parts{{0, 1, 2}});
  CHECK(steps_between({{0, 1}, {}}, {{}, {0, 1}}, 2) == lists_of_parts{{0}, {1}});
  // What a rank copies itself makes room, too: 1 goes down when 0 has left.
  CHECK(steps_between({{0, 1}, {2}}, {{1, 2}, {0}}, 3) == lists_of_parts{{0, 1}});
}

TEST_CASE("a redistribution in place has the steps in its plans, and in its hash") {
  auto const from = experts_in(4, {{0, 1}, {2, 3}});
  auto const to = experts_in(4, {{2, 3}, {0, 1}});
  auto const sizes = std::vector<std::size_t>{10, 10, 7};
  auto const at_once = fssdp::redistribution{from, to, sizes};
  auto const in_place = fssdp::redistribution{from, to, sizes, {}, {.in_place = true}};
  REQUIRE(at_once.classes().size() == 2);
  REQUIRE(in_place.classes().size() == 2);
  CHECK(at_once.classes()[0].steps.size() == 1);
  for (auto const& of_size : in_place.classes()) {
    CHECK(of_size.steps.size() == 2);
    for (auto const& step : of_size.steps) {
      CHECK_NOTHROW(verify(step.plan));
      for (auto const rank : fssdp::first_n<rank_id>(2)) CHECK(step.targets.of(rank).size() == 1);
    }
  }
  CHECK(in_place.hash_value() != at_once.hash_value());
  CHECK(in_place.bytes().total == at_once.bytes().total);
  CHECK(in_place.bytes().total == 4 * 4 * (10 + 10 + 7));
  CHECK(in_place.bound_seconds() == at_once.bound_seconds());
  CHECK(in_place.simulated_seconds() >= in_place.bound_seconds());
}
