// SPDX-License-Identifier: Apache-2.0
/// Transfers sorted by what each rank does in each round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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
  void mix(transfer const& t) {
    mix(t.round);
    mix(t.chunk.expert.value());
    mix(t.chunk.slice.value());
    mix(t.source.value());
    mix(t.destination.value());
  }
  [[nodiscard]] std::uint64_t value() const {
    auto const h = (hash_ ^ (hash_ >> 33U)) * 0xff51afd7ed558ccd;
    return h ^ (h >> 33U);
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

/// All transfers in canonical order, and those of each rank and round.
class transfer_table {
 public:
  transfer_table() = default;
  /// @pre all transfers name ranks below `ranks`
  transfer_table(std::vector<transfer> transfers, int ranks) : all_{std::move(transfers)} {
    std::ranges::sort(all_);
    if (!all_.empty()) rounds_ = all_.back().round + 1;
    by_source_ = index(&transfer::source, ranks);
    by_destination_ = index(&transfer::destination, ranks);
  }

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] std::vector<transfer> const& all() const { return all_; }
  /// What a rank sends, by round.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const { return by_source_.of(rank); }
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return of_round(by_source_.of(rank), round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return of_round(by_destination_.of(rank), round);
  }

 private:
  [[nodiscard]] per_rank<transfer> index(rank_id transfer::*end, int ranks) const {
    auto table = per_rank<transfer>{.items = all_};
    std::ranges::stable_sort(table.items, {}, end);
    for (auto const rank : first_n<rank_id>(ranks)) {
      auto const behind = std::ranges::upper_bound(table.items, rank, {}, end);
      table.begin.push_back(static_cast<std::size_t>(behind - table.items.begin()));
    }
    return table;
  }
  static std::span<transfer const> of_round(std::span<transfer const> list, int round) {
    auto const first = std::ranges::lower_bound(list, round, {}, &transfer::round);
    return {first, std::ranges::upper_bound(first, list.end(), round, {}, &transfer::round)};
  }

  std::vector<transfer> all_;
  int rounds_ = 0;
  per_rank<transfer> by_source_;
  per_rank<transfer> by_destination_;
};

}  // namespace fssdp::detail
