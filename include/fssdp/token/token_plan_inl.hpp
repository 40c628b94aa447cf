// SPDX-License-Identifier: Apache-2.0
/// Builds the lists of a token_plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/token/token_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE token_plan::lists::lists(token_counts const& counts, placement const& where,
                                      rank_id me, row_orders const& how)
    : rank{me}, orders{how}, device_loads(static_cast<std::size_t>(where.ranks())) {
  detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                  "token_plan: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                  " experts; the placement has ", where.ranks(), " and ", where.experts());
  detail::require(rank.value() >= 0 && rank.value() < where.ranks(), "token_plan: rank ", rank,
                  "; expected 0 to ", where.ranks() - 1);
  hash.mix(static_cast<int>(orders.sent), static_cast<int>(orders.received));
}

FSSDP_INLINE void token_plan::lists::add(expert_id expert, rank_id source, rank_id to,
                                         std::uint64_t tokens) {
  auto const rows = static_cast<std::size_t>(tokens);
  device_loads[to.index()] += tokens;
  if (source == rank) {
    sends.push_back({expert, to, sent_rows, rows});
    sent_rows += rows;
  }
  if (to == rank) {
    receives.push_back({expert, source, received_rows, rows});
    received_rows += rows;
  }
  for (auto const number : {expert.index(), source.index(), to.index(), rows}) hash.mix(number);
}

FSSDP_INLINE void token_plan::lists::end(expert_id expert, bool held) {
  if (held) groups.push_back({expert, rows_before, received_rows - rows_before});
  rows_before = received_rows;
}

namespace detail {

/// The segments of each peer. With row_order::by_rank, this is also the order of the rows.
[[nodiscard]] inline per_rank<token_segment> by_peer(std::vector<token_segment>& list,
                                                     row_order order, std::size_t ranks) {
  auto sorted = per_rank<token_segment>{list, {0}};
  std::stable_sort(sorted.items.begin(), sorted.items.end(),
                   [](token_segment const& a, token_segment const& b) { return a.peer < b.peer; });
  for (std::size_t r = 0; r < ranks; ++r) {
    auto at = sorted.begin.back();
    while (at < list.size() && sorted.items[at].peer.index() == r) ++at;
    sorted.begin.push_back(at);
  }
  if (order == row_order::by_expert) return sorted;
  for (std::size_t next = 0; auto& s : sorted.items) next += (s.first = next, s.rows);
  list = sorted.items;
  return sorted;
}

}  // namespace detail

FSSDP_INLINE void token_plan::lists::end_all() {
  sent_to = detail::by_peer(sends, orders.sent, device_loads.size());
  received_from = detail::by_peer(receives, orders.received, device_loads.size());
  if (orders.received == row_order::by_expert) return;
  groups.clear();
  for (auto const& s : receives) groups.push_back({s.expert, s.first, s.rows});
}

FSSDP_INLINE token_plan::token_plan(token_counts const& counts, placement const& where,
                                    rank_id rank, topology const& topo, row_orders const& orders)
    : token_plan{counts, even_routing{where, topo}, rank, orders} {}

FSSDP_INLINE std::span<token_segment const> token_plan::sends() const { return lists_->sends; }

FSSDP_INLINE std::span<token_segment const> token_plan::receives() const {
  return lists_->receives;
}

FSSDP_INLINE std::span<token_segment const> token_plan::sent_to(rank_id receiver) const {
  return lists_->sent_to.of(receiver);
}

FSSDP_INLINE std::span<token_segment const> token_plan::received_from(rank_id source) const {
  return lists_->received_from.of(source);
}

FSSDP_INLINE std::span<expert_rows const> token_plan::groups() const { return lists_->groups; }

FSSDP_INLINE std::span<std::uint64_t const> token_plan::device_loads() const {
  return lists_->device_loads;
}

FSSDP_INLINE std::vector<std::uint32_t> token_plan::rows_by_expert() const {
  detail::require(sent_rows() <= std::numeric_limits<std::uint32_t>::max(),
                  "token_plan: ", sent_rows(), " rows are sent; expected less than 2^32");
  auto by_expert = lists_->sends;
  std::sort(by_expert.begin(), by_expert.end(), [](token_segment const& a, token_segment const& b) {
    return a.expert != b.expert ? a.expert < b.expert : a.peer < b.peer;
  });
  auto rows = std::vector<std::uint32_t>{};
  rows.reserve(sent_rows());
  for (auto const& s : by_expert)
    for (auto row = s.first; row < s.first + s.rows; ++row)
      rows.push_back(static_cast<std::uint32_t>(row));
  return rows;
}

}  // namespace fssdp
