// SPDX-License-Identifier: Apache-2.0
/// Transfers sorted by what each rank does in each round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/transfer.hpp"

namespace fssdp::detail {

/// A list per rank, one behind the other.
template <class T>
struct per_rank {
  std::vector<T> items;
  std::vector<std::size_t> begin = {0};
  void close() { begin.push_back(items.size()); }
  [[nodiscard]] std::span<T const> of(rank_id rank) const {
    return std::span{items}.subspan(begin[rank.index()],
                                    begin[rank.index() + 1] - begin[rank.index()]);
  }
};

/// 64 bits of many numbers: FNV-1a over words, with a final mix.
class hasher {
 public:
  template <class Number>
  void mix(Number value) {
    hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0x100000001b3;
  }
  /// Two numbers that fit into 32 bits.
  void mix(int high, int low) {
    mix((static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U) |
        static_cast<std::uint32_t>(low));
  }
  void mix(transfer const& t) {
    mix(t.order, t.round);
    mix(t.chunk.expert.value(), t.chunk.slice.value());
    mix(t.source.value(), t.destination.value());
    mix(t.piece);
  }
  [[nodiscard]] std::uint64_t value() const {
    auto const h = (hash_ ^ (hash_ >> 33U)) * 0xff51afd7ed558ccd;
    return h ^ (h >> 33U);
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

/// All transfers in canonical order, those of each rank, and those of each rank and round.
class transfer_table {
 public:
  transfer_table() = default;
  /// @pre all transfers name ranks below `ranks`
  transfer_table(std::vector<transfer> transfers, int ranks) : all_{std::move(transfers)} {
    if (!std::ranges::is_sorted(all_)) std::ranges::sort(all_);
    for (auto const& t : all_) rounds_ = std::max(rounds_, t.round + 1);
    sends_ = dealt_out(&transfer::source, ranks);
    receives_ = dealt_out(&transfer::destination, ranks);
    batched_sends_ = by_round(sends_, ranks);
    batched_receives_ = by_round(receives_, ranks);
  }

  /// Finds out which transfer brings what others pass on.
  /// @param position(piece) a number below `positions` for every piece
  template <class Position>
  void link(std::size_t positions, Position position) {
    find_feeders(static_cast<int>(sends_.begin.size()) - 1, positions, position);
  }

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] std::vector<transfer> const& all() const { return all_; }
  /// The position of the transfer that brings the piece to the source of each; -1: none does.
  [[nodiscard]] std::span<int const> feeders() const { return feeders_; }
  /// What a rank sends (receives), in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const { return sends_.of(rank); }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const {
    return receives_.of(rank);
  }
  /// What it sends (receives) in one round, by piece and peer.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return of_round(batched_sends_.of(rank), round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return of_round(batched_receives_.of(rank), round);
  }

 private:
  /// The transfers of each rank at one of their ends: counted, then dealt out.
  [[nodiscard]] per_rank<transfer> dealt_out(rank_id transfer::*end, int ranks) const {
    auto table = per_rank<transfer>{std::vector<transfer>(all_.size()), {}};
    table.begin.assign(static_cast<std::size_t>(ranks) + 1, 0);
    for (auto const& t : all_) ++table.begin[(t.*end).index() + 1];
    std::partial_sum(table.begin.begin(), table.begin.end(), table.begin.begin());
    auto next = table.begin;
    for (auto const& t : all_) table.items[next[(t.*end).index()]++] = t;
    return table;
  }
  /// Rank by rank: notes which transfer brings which piece, then looks up what is passed on.
  template <class Position>
  void find_feeders(int ranks, std::size_t positions, Position position) {
    struct note {
      int rank = -1;
      int index = -1;
    };
    auto brought = std::vector<note>(positions);
    feeders_.assign(all_.size(), -1);
    auto const numbers = [&](rank_id transfer::*end) {
      auto table = per_rank<int>{std::vector<int>(all_.size()), sends_.begin};
      if (end == &transfer::destination) table.begin = receives_.begin;
      auto next = table.begin;
      for (std::size_t i = 0; i < all_.size(); ++i)
        table.items[next[(all_[i].*end).index()]++] = static_cast<int>(i);
      return table;
    };
    auto const sent = numbers(&transfer::source);
    auto const received = numbers(&transfer::destination);
    for (auto const rank : first_n<rank_id>(ranks)) {
      for (auto const i : received.of(rank))
        brought[position(all_[static_cast<std::size_t>(i)].what())] = {rank.value(), i};
      for (auto const i : sent.of(rank)) {
        auto const& found = brought[position(all_[static_cast<std::size_t>(i)].what())];
        if (found.rank == rank.value()) feeders_[static_cast<std::size_t>(i)] = found.index;
      }
    }
  }
  static per_rank<transfer> by_round(per_rank<transfer> table, int ranks) {
    auto const key = [](transfer const& t) {
      return std::tuple{t.round, t.what(), t.source, t.destination};
    };
    for (auto const rank : first_n<rank_id>(ranks)) {
      auto const first =
          table.items.begin() + static_cast<std::ptrdiff_t>(table.begin[rank.index()]);
      auto const last =
          table.items.begin() + static_cast<std::ptrdiff_t>(table.begin[rank.index() + 1]);
      if (!std::ranges::is_sorted(first, last, {}, key)) std::ranges::sort(first, last, {}, key);
    }
    return table;
  }
  static std::span<transfer const> of_round(std::span<transfer const> list, int round) {
    auto const first = std::ranges::lower_bound(list, round, {}, &transfer::round);
    return {first, std::ranges::upper_bound(first, list.end(), round, {}, &transfer::round)};
  }

  std::vector<transfer> all_;
  std::vector<int> feeders_;
  int rounds_ = 0;
  per_rank<transfer> sends_;
  per_rank<transfer> receives_;
  per_rank<transfer> batched_sends_;
  per_rank<transfer> batched_receives_;
};

}  // namespace fssdp::detail
