// SPDX-License-Identifier: Apache-2.0
/// Sorts transfers by rank and round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/hasher.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/transfer_table.hpp"

namespace fssdp::detail {

FSSDP_INLINE transfer_table::transfer_table(std::vector<transfer> transfers, int ranks)
    : all_{std::move(transfers)} {
  if (!std::is_sorted(all_.begin(), all_.end())) std::sort(all_.begin(), all_.end());
  for (auto const& t : all_) rounds_ = std::max(rounds_, t.round + 1);
  sends_ = dealt_out(&transfer::source, ranks);
  receives_ = dealt_out(&transfer::destination, ranks);
  batched_sends_ = by_round(sends_, ranks);
  batched_receives_ = by_round(receives_, ranks);
}

template <class Position>
void transfer_table::link(std::size_t positions, Position position) {
  struct note {
    int rank = -1;
    int received = -1;  // index among the receives of the rank
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

FSSDP_INLINE void transfer_table::mix_into(hasher& hash) const {
  for (auto const& t : all_) {
    hash.mix(t.order, t.round);
    hash.mix(t.chunk.expert.value(), t.chunk.slice.value());
    hash.mix(t.source.value(), t.destination.value());
    hash.mix(t.piece);
  }
}

FSSDP_INLINE per_rank<transfer> transfer_table::dealt_out(rank_id transfer::*end, int ranks) const {
  auto table = per_rank<transfer>{std::vector<transfer>(all_.size()), {}};
  table.begin.assign(static_cast<std::size_t>(ranks) + 1, 0);
  for (auto const& t : all_) ++table.begin[(t.*end).index() + 1];
  std::partial_sum(table.begin.begin(), table.begin.end(), table.begin.begin());
  auto next = table.begin;
  for (auto const& t : all_) table.items[next[(t.*end).index()]++] = t;
  return table;
}

FSSDP_INLINE std::vector<int> transfer_table::numbers(rank_id transfer::*end,
                                                      std::vector<std::size_t> next) const {
  auto list = std::vector<int>(all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i)
    list[next[(all_[i].*end).index()]++] = static_cast<int>(i);
  return list;
}

FSSDP_INLINE per_rank<transfer> transfer_table::by_round(per_rank<transfer> table, int ranks) {
  auto const before = [](transfer const& a, transfer const& b) {
    return a.round != b.round ? a.round < b.round : before_in_round(a, b);
  };
  for (auto const rank : first_n<rank_id>(ranks)) {
    auto const first = table.items.begin() + static_cast<std::ptrdiff_t>(table.begin[rank.index()]);
    auto const last =
        table.items.begin() + static_cast<std::ptrdiff_t>(table.begin[rank.index() + 1]);
    if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
  }
  return table;
}

FSSDP_INLINE std::span<transfer const> transfer_table::of_round(std::span<transfer const> list,
                                                                int round) {
  auto const* const begin = list.data();
  auto const* const end = begin + list.size();
  auto const* const first =
      std::partition_point(begin, end, [round](transfer const& t) { return t.round < round; });
  auto const* const last =
      std::partition_point(first, end, [round](transfer const& t) { return t.round == round; });
  return {first, static_cast<std::size_t>(last - first)};
}

FSSDP_INLINE std::span<int const> transfer_table::feeders() const {
  return {feeders_.data(), feeders_.size()};
}
FSSDP_INLINE std::span<int const> transfer_table::followers(rank_id rank,
                                                            std::size_t received) const {
  auto const at = receives_.begin[rank.index()] + received;
  return {followers_.items.data() + followers_.begin[at],
          followers_.begin[at + 1] - followers_.begin[at]};
}
FSSDP_INLINE std::span<transfer const> transfer_table::sends(rank_id rank) const {
  return sends_.of(rank);
}
FSSDP_INLINE std::span<transfer const> transfer_table::receives(rank_id rank) const {
  return receives_.of(rank);
}
FSSDP_INLINE std::span<transfer const> transfer_table::batched_sends(rank_id rank) const {
  return batched_sends_.of(rank);
}
FSSDP_INLINE std::span<transfer const> transfer_table::sends(rank_id rank, int round) const {
  return of_round(batched_sends_.of(rank), round);
}
FSSDP_INLINE std::span<transfer const> transfer_table::receives(rank_id rank, int round) const {
  return of_round(batched_receives_.of(rank), round);
}

}  // namespace fssdp::detail
