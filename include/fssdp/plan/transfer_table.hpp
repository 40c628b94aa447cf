// SPDX-License-Identifier: Apache-2.0
/// Transfers sorted by what each rank does in each round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/plan/hasher.hpp"
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
    struct note {
      int rank = -1;
      int received = -1;  // where among what the rank receives
    };
    auto const ranks = static_cast<int>(sends_.begin.size()) - 1;
    auto brought = std::vector<note>(positions);
    auto fed_by = std::vector<int>(all_.size(), -1);  // [sends of all ranks]
    followers_.begin.assign(all_.size() + 1, 0);
    feeders_.assign(all_.size(), -1);
    auto const sent = numbers(&transfer::source, sends_.begin);
    auto const received = numbers(&transfer::destination, receives_.begin);
    for (auto const rank : first_n<rank_id>(ranks)) {
      auto const arriving = receives_.of(rank);
      for (std::size_t i = 0; i < arriving.size(); ++i)
        brought[position(arriving[i].what())] = {rank.value(), static_cast<int>(i)};
      for (auto i = sends_.begin[rank.index()]; i < sends_.begin[rank.index() + 1]; ++i) {
        auto const& found = brought[position(sends_.items[i].what())];
        if (found.rank != rank.value()) continue;
        auto const at = receives_.begin[rank.index()] + static_cast<std::size_t>(found.received);
        fed_by[i] = static_cast<int>(at);
        feeders_[static_cast<std::size_t>(sent[i])] = received[at];
        ++followers_.begin[at + 1];
      }
    }
    std::partial_sum(followers_.begin.begin(), followers_.begin.end(), followers_.begin.begin());
    followers_.items.resize(followers_.begin.back());
    auto next = followers_.begin;
    for (auto const rank : first_n<rank_id>(ranks))
      for (auto i = sends_.begin[rank.index()]; i < sends_.begin[rank.index() + 1]; ++i)
        if (fed_by[i] >= 0)
          followers_.items[next[static_cast<std::size_t>(fed_by[i])]++] =
              static_cast<int>(i - sends_.begin[rank.index()]);
  }

  /// All that tells these transfers from others.
  void mix_into(hasher& hash) const {
    for (auto const& t : all_) {
      hash.mix(t.order, t.round);
      hash.mix(t.chunk.expert.value(), t.chunk.slice.value());
      hash.mix(t.source.value(), t.destination.value());
      hash.mix(t.piece);
    }
  }

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] std::vector<transfer> const& all() const { return all_; }
  /// The position of the transfer that brings the piece to the source of each; -1: none does.
  [[nodiscard]] std::span<int const> feeders() const { return feeders_; }
  /// Which of its sends pass on what a rank gets by its n-th receive, by position.
  [[nodiscard]] std::span<int const> followers(rank_id rank, std::size_t received) const {
    auto const at = receives_.begin[rank.index()] + received;
    return std::span{followers_.items}.subspan(followers_.begin[at],
                                               followers_.begin[at + 1] - followers_.begin[at]);
  }
  /// What a rank sends (receives), in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const { return sends_.of(rank); }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const {
    return receives_.of(rank);
  }
  /// What it sends by round, then by piece and peer.
  [[nodiscard]] std::span<transfer const> batched_sends(rank_id rank) const {
    return batched_sends_.of(rank);
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
  /// The positions of all transfers, dealt out like the transfers.
  [[nodiscard]] std::vector<int> numbers(rank_id transfer::*end,
                                         std::vector<std::size_t> next) const {
    auto list = std::vector<int>(all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i)
      list[next[(all_[i].*end).index()]++] = static_cast<int>(i);
    return list;
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
  per_rank<int> followers_;  // a list per receive, of all ranks
  int rounds_ = 0;
  per_rank<transfer> sends_;
  per_rank<transfer> receives_;
  per_rank<transfer> batched_sends_;
  per_rank<transfer> batched_receives_;
};

}  // namespace fssdp::detail
