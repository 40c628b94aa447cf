// SPDX-License-Identifier: Apache-2.0
/// The moves that turn one layout into another, in rounds that need little memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/plan/transfer_table.hpp"

namespace fssdp {

/// Which chunks change their owner, and in which round each of them travels. A value; equal inputs
/// give equal plans on every rank.
///
/// Shards are full: what arrives takes the place of what leaves in the same round, or waits beside
/// it, in scratch, until the round is over. No rank gets more than `scratch_slots` chunks in a
/// round, and none gets more than it can place. Where chunks wait for each other in a ring, the
/// whole ring moves at once.
/// @cost O(moves * rounds) time; the number of rounds is about the largest number of chunks that
///       leave or enter a rank, over scratch_slots
class reshard_plan {
 public:
  struct options {
    int scratch_slots = 2;  ///< how many chunks a rank has room for beside its shard
  };

  /// @throws argument_error if a layout breaks its law, the two differ in experts, slices or ranks,
  ///         or there is no scratch slot
  template <shard_layout From, shard_layout To>
  reshard_plan(From const& from, To const& to, options const& how)
      : ranks_{from.ranks()}, scratch_slots_{how.scratch_slots} {
    check_layout(from);
    check_layout(to);
    detail::require(from.experts() == to.experts() && from.slices() == to.slices() &&
                        from.ranks() == to.ranks(),
                    "reshard: from ", from.experts(), " experts in ", from.slices(), " slices on ",
                    from.ranks(), " ranks to ", to.experts(), " in ", to.slices(), " on ",
                    to.ranks(), "; expected equal numbers");
    detail::require(scratch_slots_ >= 1, "reshard: ", scratch_slots_,
                    " scratch slots; expected 1 or more");
    list_owned(from, before_);
    list_owned(to, after_);
    auto moves = std::vector<transfer>{};
    for (auto const chunk : all_chunks(from))
      if (from.owner(chunk) != to.owner(chunk))
        moves.push_back({0, chunk, from.owner(chunk), to.owner(chunk)});
    moves_ = {in_rounds(std::move(moves)), ranks_};
    hash_ = hash();
  }
  template <shard_layout From, shard_layout To>
  reshard_plan(From const& from, To const& to) : reshard_plan{from, to, options{}} {}

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int rounds() const { return moves_.rounds(); }
  [[nodiscard]] int scratch_slots() const { return scratch_slots_; }
  /// All moves in canonical order.
  [[nodiscard]] std::span<transfer const> moves() const { return moves_.all(); }
  /// What a rank sends (receives) in one round.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return moves_.sends(rank, round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return moves_.receives(rank, round);
  }
  /// The chunks of a rank in slot order, before and after.
  [[nodiscard]] std::span<chunk_id const> before(rank_id rank) const { return before_.of(rank); }
  [[nodiscard]] std::span<chunk_id const> after(rank_id rank) const { return after_.of(rank); }
  /// The slots that a rank's shard needs throughout.
  [[nodiscard]] std::size_t slots(rank_id rank) const {
    return std::max(before(rank).size(), after(rank).size());
  }
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return hash_; }

 private:
  template <class Layout>
  static void list_owned(Layout const& layout, detail::per_rank<chunk_id>& lists) {
    for (auto const rank : first_n<rank_id>(layout.ranks())) {
      for (chunk_id const chunk : layout.owned(rank)) lists.items.push_back(chunk);
      lists.close();
    }
  }

  /// How a round changes the shards: per rank.
  struct balance {
    std::vector<int> in;
    std::vector<int> out;
    explicit balance(int ranks)
        : in(static_cast<std::size_t>(ranks)), out(static_cast<std::size_t>(ranks)) {}
    void add(transfer const& move, int count) {
      out[move.source.index()] += count;
      in[move.destination.index()] += count;
    }
  };
  using positions = std::vector<std::size_t>;  // of moves that are left

  std::vector<transfer> in_rounds(std::vector<transfer> left) const {
    auto free = std::vector<int>{};  // slots of each rank
    for (auto const rank : first_n<rank_id>(ranks_))
      free.push_back(static_cast<int>(slots(rank) - before(rank).size()));
    auto done = std::vector<transfer>{};
    for (int round = 0; !left.empty(); ++round) {
      auto chosen = as_many_as_fit(left, free);
      if (chosen.empty()) chosen = one_ring_or_path(left, free);
      auto rest = std::vector<transfer>{};
      auto next = chosen.begin();
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (next == chosen.end() || *next != i) {
          rest.push_back(left[i]);
          continue;
        }
        ++next;
        left[i].round = round;
        done.push_back(left[i]);
        ++free[left[i].source.index()];
        --free[left[i].destination.index()];
      }
      left = std::move(rest);
    }
    return done;
  }

  /// The first moves that the scratch allows, less those for which no place would be left.
  [[nodiscard]] positions as_many_as_fit(std::vector<transfer> const& left,
                                         std::vector<int> const& free) const {
    auto sum = balance{ranks_};
    auto chosen = positions{};
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (sum.out[left[i].source.index()] == scratch_slots_ ||
          sum.in[left[i].destination.index()] == scratch_slots_)
        continue;
      sum.add(left[i], 1);
      chosen.push_back(i);
    }
    for (auto changed = true; changed;) {
      changed = false;
      for (auto i = chosen.size(); i-- > 0;) {
        auto const& move = left[chosen[i]];
        auto const at = move.destination.index();
        if (sum.in[at] <= free[at] + sum.out[at]) continue;
        sum.add(move, -1);
        chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
      }
    }
    return chosen;
  }

  /// Follows what is left from rank to rank, to one that has a free slot or has been visited. There
  /// always is such a way: a full rank that still gets something still has something to give.
  [[nodiscard]] positions one_ring_or_path(std::vector<transfer> const& left,
                                           std::vector<int> const& free) const {
    auto way = positions{0};
    auto entered = std::vector<std::ptrdiff_t>(static_cast<std::size_t>(ranks_), -1);
    for (auto at = left.front().destination; free[at.index()] == 0;) {
      auto& before = entered[at.index()];
      if (before >= 0) {  // a ring; what led to it stays behind
        way.erase(way.begin(), way.begin() + before);
        break;
      }
      before = static_cast<std::ptrdiff_t>(way.size());
      auto const next = std::ranges::find(left, at, &transfer::source);
      way.push_back(static_cast<std::size_t>(next - left.begin()));
      at = next->destination;
    }
    std::ranges::sort(way);
    return way;
  }

  [[nodiscard]] std::uint64_t hash() const {
    auto hash = detail::hasher{};
    hash.mix(ranks_);
    hash.mix(scratch_slots_);
    for (auto const* lists : {&before_, &after_}) {
      for (auto const first : lists->begin) hash.mix(first);
      for (auto const& chunk : lists->items) {
        hash.mix(chunk.expert.value());
        hash.mix(chunk.slice.value());
      }
    }
    for (auto const& move : moves_.all()) hash.mix(move);
    return hash.value();
  }

  int ranks_;
  int scratch_slots_;
  detail::per_rank<chunk_id> before_;
  detail::per_rank<chunk_id> after_;
  detail::transfer_table moves_;
  std::uint64_t hash_ = 0;
};

}  // namespace fssdp
