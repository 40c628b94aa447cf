// SPDX-License-Identifier: Apache-2.0
/// Who has which experts when ranks are lost, and who owns them afterwards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/recovery/chunks_left.hpp"
#include "fssdp/recovery/even_owners.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/mirrored_training.hpp"

using fssdp::chunk_id;
using fssdp::chunks_left;
using fssdp::expert_id;
using fssdp::mirror_partners;
using fssdp::rank_id;

namespace {

using ranks = std::vector<rank_id>;

/// Some of so many ranks, one or more.
[[nodiscard]] ranks some_left(support::dice& draw, int size) {
  auto all = ranks{};
  for (auto const rank : fssdp::first_n<rank_id>(size)) all.push_back(rank);
  draw.shuffle(all);
  all.resize(static_cast<std::size_t>(draw.between(1, size)));
  std::ranges::sort(all);
  return all;
}

/// The fewest moves with which `have` chunks of each rank become even: by all choices of who has
/// one more than others.
[[nodiscard]] std::size_t fewest_moves(std::vector<std::size_t> const& have) {
  auto const size = have.size();
  auto chunks = std::size_t{0};
  for (auto const count : have) chunks += count;
  auto best = chunks;
  for (auto choice = std::size_t{0}; choice < std::size_t{1} << size; ++choice) {
    auto more = std::size_t{0};
    auto moves = std::size_t{0};
    for (std::size_t rank = 0; rank < size; ++rank) {
      auto const one = choice >> rank & 1U;
      auto const room = chunks / size + one;
      more += one;
      if (have[rank] > room) moves += have[rank] - room;
    }
    if (more == chunks % size) best = std::min(best, moves);
  }
  return best;
}

}  // namespace

TEST_CASE("every chunk is left once: with its owner, or with that owner's partner") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed + 7};
    auto const of = support::mirrored_ranks_by_chance(seed, 1);
    auto const partners = mirror_partners{of.topo};
    auto const left = some_left(draw, of.topo.ranks());
    auto const is_left = [&](rank_id rank) { return std::ranges::binary_search(left, rank); };
    auto gone = std::optional<rank_id>{};
    for (auto const rank : fssdp::first_n<rank_id>(of.topo.ranks())) {
      if (gone.has_value() || is_left(rank) || of.layout.owned(rank).empty()) continue;
      if (auto const partner = partners.partner(rank); !partner || !is_left(*partner)) gone = rank;
    }
    try {
      auto const has = chunks_left(of.layout, partners, left);
      REQUIRE(!gone.has_value());
      for (auto const chunk : fssdp::all_chunks(of.layout)) {
        auto const owner = of.layout.owner(chunk);
        auto const expected = is_left(owner) ? owner : *partners.partner(owner);
        REQUIRE(has.places(chunk).size() == 1);
        REQUIRE(left[has.places(chunk).front().rank.index()] == expected);
      }
    } catch (fssdp::state_lost const& error) {
      REQUIRE(gone == error.rank());
      REQUIRE(error.partner() == partners.partner(*gone));
      REQUIRE(std::ranges::equal(error.chunks(), of.layout.owned(*gone)));
      REQUIRE_THAT(error.what(), mentions("load the last checkpoint"));
    }
  }
}

TEST_CASE("new owners are even, and no even ones take fewer moves") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const size = draw.between(1, 6);
    auto const slices = draw.between(1, 2);
    auto const chunks = draw.between(1, 9) * slices;
    auto const favourite = draw.between(0, size - 1);
    auto lists = std::vector<std::vector<chunk_id>>(static_cast<std::size_t>(size));
    for (auto const chunk : fssdp::chunk_range{0, chunks, slices})
      lists[static_cast<std::size_t>(draw.chance(30) ? favourite : draw.between(0, size - 1))]
          .push_back(chunk);
    auto have = std::vector<std::size_t>{};
    for (auto const& list : lists) have.push_back(list.size());
    auto const left = fssdp::distribution{chunks / slices, slices, lists};
    auto const owners = fssdp::even_owners{}(left);
    REQUIRE(owners == fssdp::even_owners{}(left));
    fssdp::check_layout(owners);
    auto moves = std::size_t{0};
    for (auto const chunk : fssdp::all_chunks(owners))
      moves += owners.owner(chunk) == left.places(chunk).front().rank ? 0 : 1;
    REQUIRE(moves == fewest_moves(have));
    auto const even = static_cast<std::size_t>(chunks) / static_cast<std::size_t>(size);
    for (auto const rank : fssdp::first_n<rank_id>(size)) {
      REQUIRE(owners.owned(rank).size() >= even);
      REQUIRE(owners.owned(rank).size() <= even + 1);
    }
  }
}

TEST_CASE("the loss of a rank and its partner names both, what is lost, and the checkpoint") {
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const partners = mirror_partners{topo};  // 0 with 2, 1 with 3, and back
  auto owners = std::vector<rank_id>{};
  for (int chunk = 0; chunk < 24; ++chunk) owners.emplace_back(chunk % 2 == 0 ? 1 : 0);
  auto const layout = fssdp::table_layout{{.ranks = 4, .slices = 2}, owners};
  REQUIRE_THROWS_WITH(chunks_left(layout, partners, ranks{rank_id{0}, rank_id{2}}),
                      mentions("rank 1 and its partner, rank 3, are lost") &&
                          mentions("experts 0 (slice 0), 1 (slice 0)") &&
                          mentions("and 4 more; load the last checkpoint"));
  auto const alone = mirror_partners{fssdp::topology{{.nodes = 1, .ranks = 1}}};
  REQUIRE_THROWS_WITH(chunks_left(layout, alone, ranks{rank_id{0}}),
                      mentions("partners of 1 ranks") && mentions("expected 4"));
  REQUIRE_THROWS_WITH(chunks_left(layout, partners, ranks{}), mentions("no ranks"));
  REQUIRE_THROWS_WITH(chunks_left(layout, partners, ranks{rank_id{2}, rank_id{0}}),
                      mentions("expected ascending ranks"));
  REQUIRE_THROWS_WITH(fssdp::even_owners{}(fssdp::distribution{1, 1, {{}, {}}}),
                      mentions("expert 0 is on 0 ranks"));
}
