// SPDX-License-Identifier: Apache-2.0
/// Slots with the expert that each holds: the form in which inference engines keep placements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {

/// A slot of any rank: rank * slots_per_rank + slot.
using physical_id = strong_index<struct physical_tag>;

/// The logical expert of each physical one, with equally many slots on every rank. A regular value.
///
/// This is physical_to_logical (phy2log) of EPLB, vLLM and SGLang; log2phy and logcnt follow from
/// it. An expert may have several slots on one rank; every expert has at least one.
class physical_experts {
 public:
  physical_experts() = default;

  struct shape {
    int experts = 1;
    int ranks = 1;
  };
  /// @param logical [ranks * slots per rank], rank by rank
  /// @cost O(slots + experts)
  /// @throws argument_error if the number of slots is not a multiple of the ranks, an expert has no
  ///         slot, or a slot has an expert that does not exist
  physical_experts(shape const& of, std::vector<expert_id> logical)
      : ranks_{of.ranks}, logical_{std::move(logical)} {
    detail::require(of.experts >= 1 && of.ranks >= 1, "physical_experts: ", of.experts,
                    " experts on ", of.ranks, " ranks; expected 1 or more of each");
    detail::require(logical_.size() % static_cast<std::size_t>(of.ranks) == 0,
                    "physical_experts: ", logical_.size(), " slots on ", of.ranks,
                    " ranks; expected equally many on each");
    detail::require(static_cast<std::size_t>(of.experts) <= logical_.size(),
                    "physical_experts: ", of.experts, " experts in ", logical_.size(),
                    " slots; expected 1 or more for each");
    begin_.resize(static_cast<std::size_t>(of.experts) + 1);
    for (std::size_t slot = 0; slot < logical_.size(); ++slot) {
      auto const expert = logical_[slot];
      detail::require(expert.value() >= 0 && expert.value() < of.experts, "physical_experts: slot ",
                      slot, " holds expert ", expert, "; expected 0 to ", of.experts - 1);
      ++begin_[expert.index() + 1];
    }
    for (auto const expert : first_n<expert_id>(of.experts)) {
      detail::require(begin_[expert.index() + 1] > 0, "physical_experts: expert ", expert,
                      " has no slot; expected 1 or more");
      begin_[expert.index() + 1] += begin_[expert.index()];
    }
    physical_.resize(logical_.size());
    auto next = begin_;
    for (std::size_t slot = 0; slot < logical_.size(); ++slot)
      physical_[next[logical_[slot].index()]++] = physical_id{slot};
  }

  [[nodiscard]] int experts() const { return static_cast<int>(begin_.size()) - 1; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int slots_per_rank() const { return static_cast<int>(logical_.size()) / ranks_; }

  /// The expert of each slot, [ranks * slots_per_rank]: phy2log.
  [[nodiscard]] std::span<expert_id const> physical_to_logical() const { return logical_; }
  /// The experts of one rank's slots, [slots_per_rank].
  [[nodiscard]] std::span<expert_id const> on(rank_id rank) const {
    auto const slots = static_cast<std::size_t>(slots_per_rank());
    return std::span{logical_}.subspan(rank.index() * slots, slots);
  }
  /// The slots of one expert, ascending: a row of log2phy without its padding. (EPLB lists the same
  /// slots in the order in which it made the replicas.)
  [[nodiscard]] std::span<physical_id const> logical_to_physical(expert_id expert) const {
    auto const first = begin_[expert.index()];
    return std::span{physical_}.subspan(first, begin_[expert.index() + 1] - first);
  }
  /// The number of slots of an expert: logcnt. Several slots on one rank all count.
  [[nodiscard]] int logical_count(expert_id expert) const {
    return static_cast<int>(logical_to_physical(expert).size());
  }
  /// The rank of a slot.
  [[nodiscard]] rank_id rank_of(physical_id slot) const {
    return rank_id{slot.value() / slots_per_rank()};
  }

  friend bool operator==(physical_experts const& a, physical_experts const& b) {
    return a.ranks_ == b.ranks_ && a.begin_ == b.begin_ && a.logical_ == b.logical_;
  }

 private:
  int ranks_ = 1;
  std::vector<expert_id> logical_;        // [slots]
  std::vector<physical_id> physical_;     // the slots of each expert, ascending
  std::vector<std::size_t> begin_ = {0};  // [experts + 1]: where those of each expert begin
};

/// A layout for a map without owners: the owner of an expert is the rank of its first slot. This is
/// a choice, as a map does not define owners; every rank makes the same one.
[[nodiscard]] inline table_layout layout_of(physical_experts const& slots) {
  auto owners = std::vector<rank_id>{};
  for (auto const expert : first_n<expert_id>(slots.experts()))
    owners.push_back(slots.rank_of(slots.logical_to_physical(expert).front()));
  return {{.ranks = slots.ranks()}, std::move(owners)};
}

/// The placement of a map; several slots of one rank for the same expert count once.
/// @param layout the owners: those of layout_of(slots), or others
/// @throws argument_error if the sizes differ, or an owner has no slot for its expert
template <shard_layout Layout>
[[nodiscard]] placement placement_of(physical_experts const& slots, Layout const& layout) {
  detail::require(slots.experts() == layout.experts() && slots.ranks() == layout.ranks(),
                  "physical_experts: ", slots.experts(), " experts on ", slots.ranks(),
                  " ranks; the layout has ", layout.experts(), " on ", layout.ranks());
  auto where = placement{layout};
  for (auto const expert : first_n<expert_id>(slots.experts())) {
    auto owner_has_it = false;
    for (auto const slot : slots.logical_to_physical(expert)) {
      where.add(expert, slots.rank_of(slot));
      owner_has_it = owner_has_it || slots.rank_of(slot) == layout.owner(expert);
    }
    detail::require(owner_has_it, "physical_experts: rank ", layout.owner(expert), " owns expert ",
                    expert, ", but has no slot for it");
  }
  return where;
}

/// The map of a placement. On each rank, the experts that it owns come first, in the order of their
/// slots in the layout, then its replicas, ascending.
///
/// Every slot must hold an expert. Free slots repeat, in turn and ascending, the experts that no
/// other rank holds: routers divide the tokens of an expert among its slots, and those of these
/// experts then stay on the rank. If there are none, free slots repeat all experts of the rank.
/// @post placement_of(the slots, layout) == where
/// @throws argument_error if a rank holds nothing, or more than `slots_per_rank` experts, or the
///         placement was not made for this layout
template <shard_layout Layout>
[[nodiscard]] physical_experts physical_of(placement const& where, Layout const& layout,
                                           int slots_per_rank) {
  check_contains(where, layout);
  auto logical = std::vector<expert_id>{};
  for (auto const rank : first_n<rank_id>(where.ranks())) {
    auto const first = logical.size();
    for (chunk_id const chunk : layout.owned(rank))
      if (chunk.slice == slice_id{0}) logical.push_back(chunk.expert);
    auto repeated = std::vector<expert_id>{};
    for (auto const expert : first_n<expert_id>(where.experts())) {
      if (!where.holds(rank, expert)) continue;
      if (layout.owner(expert) != rank) logical.push_back(expert);
      if (where.holders(expert).size() == 1) repeated.push_back(expert);
    }
    auto const held = logical.size() - first;
    detail::require(held >= 1, "physical_experts: rank ", rank,
                    " holds no expert; expected 1 or more, as every slot needs one");
    detail::require(slots_per_rank >= 0 && held <= static_cast<std::size_t>(slots_per_rank),
                    "physical_experts: rank ", rank, " holds ", held, " experts; expected at most ",
                    slots_per_rank, ", its slots");
    if (repeated.empty()) {
      repeated.assign(logical.end() - static_cast<std::ptrdiff_t>(held), logical.end());
      std::ranges::sort(repeated);
    }
    for (auto slot = held; slot < static_cast<std::size_t>(slots_per_rank); ++slot)
      logical.push_back(repeated[(slot - held) % repeated.size()]);
  }
  return {{.experts = where.experts(), .ranks = where.ranks()}, std::move(logical)};
}

/// The same with no slot left.
/// @throws argument_error as above, and if two ranks hold different numbers of experts
template <shard_layout Layout>
[[nodiscard]] physical_experts physical_of(placement const& where, Layout const& layout) {
  check_contains(where, layout);
  auto const slots = where.held_count(rank_id{0});
  for (auto const rank : first_n<rank_id>(where.ranks()))
    detail::require(where.held_count(rank) == slots, "physical_experts: rank ", rank, " holds ",
                    where.held_count(rank), " experts; expected ", slots,
                    " as on rank 0, or slots_per_rank to fill up to");
  return physical_of(where, layout, slots);
}

}  // namespace fssdp
