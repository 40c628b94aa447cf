// SPDX-License-Identifier: Apache-2.0
/// Assigns the experts that a node hosts to its ranks, with replicas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The tokens of an expert on one rank.
struct replica_part {
  expert_id expert;
  std::uint64_t tokens = 0;
  bool owned = false;  ///< takes no slot, and cannot be removed
};

/// Remote experts are assigned first, the most loaded first: those with many tokens to ranks with
/// room for them, those with few tokens to ranks that are nearly full, so that slots remain where
/// there is room. Then the fullest rank gives its excess to the emptiest rank that holds the expert
/// or has a free slot. A rank that uses its last slot takes as much as it has room for, even if the
/// giver is then below the average: the giver still has a slot, and takes from the next one. So one
/// slot on every rank is enough for an even load, up to the size of single experts.
/// @cost O(moves * ranks of a node * experts of a rank squared); no allocation if it has seen an
///       input as large before
class replica_packing {
 public:
  /// @param owned the largest number of experts that a rank owns
  void reset(topology const& topo, int owned, int slots) {
    stride_ = static_cast<std::size_t>(owned + slots);
    auto const ranks = static_cast<std::size_t>(topo.ranks());
    parts_.resize(ranks * stride_);
    count_.assign(ranks, 0);
    load_.assign(ranks, 0);
    free_.assign(ranks, slots);
  }
  void add_owned(rank_id rank, expert_id expert, std::uint64_t tokens) {
    add(rank, {expert, tokens, true});
  }
  /// Assigns a remote expert to the rank where it wastes least: capacity if the rank should take
  /// more tokens with each of its free slots, balance if it has too little room.
  /// @pre one of the ranks has a free slot
  void add_foreign(std::span<rank_id const> ranks, expert_id expert, std::uint64_t tokens,
                   std::uint64_t target) {
    auto best = ranks.front();
    auto least = ~std::uint64_t{0};
    for (auto const rank : ranks) {
      if (free_[rank.index()] == 0) continue;
      auto const room = target - std::min(target, load_[rank.index()]);
      auto const per_slot = room / static_cast<std::uint64_t>(free_[rank.index()]);
      auto const spoilt = per_slot - std::min(per_slot, tokens) + tokens - std::min(room, tokens);
      if (spoilt >= least) continue;
      best = rank;
      least = spoilt;
    }
    --free_[best.index()];
    add(best, {expert, tokens});
  }
  /// Makes replicas until none of these ranks has more than `target`, or no slots are left.
  void even_out(std::span<rank_id const> ranks, std::uint64_t target) {
    auto const enough = target + target / 256;
    for (auto moves = 4 * ranks.size() * stride_; moves > 0; --moves) {
      auto fullest = ranks.front();
      for (auto const rank : ranks)
        if (load_[rank.index()] > load_[fullest.index()]) fullest = rank;
      if (load_[fullest.index()] <= enough || !relieve(fullest, ranks, target)) return;
    }
  }

  [[nodiscard]] std::span<replica_part const> of(rank_id rank) const {
    return std::span{parts_}.subspan(rank.index() * stride_, count_[rank.index()]);
  }

 private:
  struct move {
    std::size_t part = 0;
    rank_id to;
    std::uint64_t tokens = 0;
    bool to_holder = false;
  };

  void add(rank_id rank, replica_part const& part) {
    parts_[rank.index() * stride_ + count_[rank.index()]++] = part;
    load_[rank.index()] += part.tokens;
  }
  [[nodiscard]] replica_part* find(rank_id rank, expert_id expert) {
    auto* const first = parts_.data() + rank.index() * stride_;
    for (auto* part = first; part != first + count_[rank.index()]; ++part)
      if (part->expert == expert) return part;
    return nullptr;
  }

  bool relieve(rank_id from, std::span<rank_id const> ranks, std::uint64_t target) {
    auto best = move{};
    auto const parts = of(from);
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (auto const to : ranks) {
        if (to == from || load_[to.index()] >= target) continue;
        auto const most = std::min(parts[i].tokens, target - load_[to.index()]);
        if (most * 6 < best.tokens * (best.to_holder ? 6 : 5)) continue;
        auto const holds = find(to, parts[i].expert) != nullptr;
        if (!holds && free_[to.index()] == 0) continue;
        auto const tokens = std::min(parts[i].tokens, wanted(from, to, holds, target));
        auto const gain = tokens * (holds ? 6 : 5);
        auto const best_gain = best.tokens * (best.to_holder ? 6 : 5);
        if (gain > best_gain ||
            (gain == best_gain && gain != 0 && load_[to.index()] > load_[best.to.index()]))
          best = {i, to, tokens, holds};
      }
    if (best.tokens == 0) return false;
    apply(from, best);
    return true;
  }

  /// The tokens that `to` should take over, if the part is large enough.
  [[nodiscard]] std::uint64_t wanted(rank_id from, rank_id to, bool holds,
                                     std::uint64_t target) const {
    auto const over = load_[from.index()] - target;
    auto const gap = target - load_[to.index()];
    auto const last = !holds && free_[to.index()] == 1 && free_[from.index()] > 0;
    return last ? gap : std::min(over, gap);
  }

  void apply(rank_id from, move const& of) {
    auto& given = parts_[from.index() * stride_ + of.part];
    if (of.to_holder) {
      find(of.to, given.expert)->tokens += of.tokens;
      load_[of.to.index()] += of.tokens;
    } else {
      --free_[of.to.index()];
      add(of.to, {given.expert, of.tokens});
    }
    given.tokens -= of.tokens;
    load_[from.index()] -= of.tokens;
    if (given.tokens != 0 || given.owned) return;
    given = parts_[from.index() * stride_ + --count_[from.index()]];
    ++free_[from.index()];
  }

  std::size_t stride_ = 0;           // the largest number of parts of a rank
  std::vector<replica_part> parts_;  // [ranks, stride]
  std::vector<std::size_t> count_;   // [ranks]
  std::vector<std::uint64_t> load_;  // [ranks]
  std::vector<int> free_;            // [ranks]
};

}  // namespace fssdp::detail
