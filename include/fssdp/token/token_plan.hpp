// SPDX-License-Identifier: Apache-2.0
/// Which rows of tokens go where: one rank's part in a dispatch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/shared_value.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Consecutive rows of one expert that go to, or come from, one rank.
struct token_segment {
  expert_id expert;
  rank_id peer;
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(token_segment const&, token_segment const&) = default;
};

/// Consecutive received rows that one expert works on.
struct expert_rows {
  expert_id expert;
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(expert_rows const&, expert_rows const&) = default;
};

/// How the rows of a rank are sorted.
enum class row_order {
  by_expert,  ///< by expert, then by peer: all rows of an expert lie one behind the other
  by_rank     ///< by peer, then by expert: all rows of a message lie one behind the other
};

/// How the rows lie that a rank sends and receives. Equal on all ranks.
struct row_orders {
  /// Those sent. permute leaves them by expert; by rank, with an expert_order for the plan.
  row_order sent = row_order::by_expert;
  /// Those received. By rank, an expert has a group of rows from each source that sends it any.
  row_order received = row_order::by_expert;
};

/// A pure value: all ranks compute theirs from the same counts, so nothing else is exchanged. Good
/// for the forward and the backward pass of a layer. No token is dropped.
///
/// The rows sent for an expert are in the order of the tokens: the first go to its first receiver,
/// and so on. A handle on lists that never change: dispatch and combine keep a copy until they have
/// run, so that the plan that they are given may be a temporary.
/// @cost a copy counts a reference and allocates nothing
class token_plan {
 public:
  /// Tokens go where the routing sends them.
  /// @throws argument_error if counts and placement differ in ranks or experts, or there is no such
  ///         rank
  template <token_routing Routing>
  token_plan(token_counts const& counts, Routing const& routing, rank_id rank,
             row_orders const& orders = {})
      : lists_{lists{counts, routing, rank, orders}} {}
  /// Tokens go by the paper's rule.
  /// @throws argument_error as above, or if the topology has another number of ranks
  token_plan(token_counts const& counts, placement const& where, rank_id rank,
             topology const& topo = {}, row_orders const& orders = {})
      : token_plan{counts, even_routing{where, topo}, rank, orders} {}

  [[nodiscard]] rank_id rank() const { return lists_->rank; }
  [[nodiscard]] int ranks() const { return static_cast<int>(lists_->device_loads.size()); }
  [[nodiscard]] row_orders const& orders() const { return lists_->orders; }
  [[nodiscard]] std::size_t sent_rows() const { return lists_->sent_rows; }
  [[nodiscard]] std::size_t received_rows() const { return lists_->received_rows; }
  /// What leaves, as it lies: by (expert, receiver) or by (receiver, expert); the rank itself may
  /// be among the receivers.
  [[nodiscard]] std::span<token_segment const> sends() const { return lists_->sends; }
  /// What arrives, as it lies: by (expert, source) or by (source, expert).
  [[nodiscard]] std::span<token_segment const> receives() const { return lists_->receives; }
  /// What leaves for one rank, by expert.
  [[nodiscard]] std::span<token_segment const> sent_to(rank_id receiver) const {
    return lists_->sent_to.of(receiver);
  }
  /// What arrives from one rank, by expert.
  [[nodiscard]] std::span<token_segment const> received_from(rank_id source) const {
    return lists_->received_from.of(source);
  }
  /// The received rows of every expert that the rank holds, ascending; there may be none of some.
  /// If they lie by rank: receives(), without the ranks.
  [[nodiscard]] std::span<expert_rows const> groups() const { return lists_->groups; }
  /// Where rows that are sorted by expert, in the order of the tokens, lie when they are sent:
  /// [sent]. Row r is row result[r].
  /// @cost O(sent), and sorts sends(); two allocations
  /// @throws argument_error if 2^32 rows or more are sent
  [[nodiscard]] std::vector<std::uint32_t> rows_by_expert() const;
  /// Rows that each rank works on: [ranks].
  [[nodiscard]] std::span<std::uint64_t const> device_loads() const { return lists_->device_loads; }
  /// The same on every rank, and almost surely another one for other counts, placements or orders.
  [[nodiscard]] std::uint64_t hash_value() const { return lists_->hash; }

 private:
  using segments = std::vector<token_segment>;

  /// Filled once, then only read.
  struct lists {
    template <class Routing>
    lists(token_counts const& counts, Routing const& routing, rank_id me, row_orders const& how)
        : rank{me}, orders{how}, device_loads(static_cast<std::size_t>(routing.where().ranks())) {
      auto const& where = routing.where();
      detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                      "token_plan: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                      " experts; the placement has ", where.ranks(), " and ", where.experts());
      detail::require(rank.value() >= 0 && rank.value() < where.ranks(), "token_plan: rank ", rank,
                      "; expected 0 to ", where.ranks() - 1);
      auto sum = detail::hasher{};
      sum.mix(static_cast<int>(orders.sent), static_cast<int>(orders.received));
      for (auto const expert : first_n<expert_id>(where.experts())) {
        auto const before = received_rows;
        for (auto const source : first_n<rank_id>(where.ranks()))
          routing(source, expert, counts(source, expert), [&](rank_id to, std::uint64_t tokens) {
            add(expert, source, to, tokens);
            for (auto const number :
                 {expert.index(), source.index(), to.index(), static_cast<std::size_t>(tokens)})
              sum.mix(number);
          });
        if (where.holds(rank, expert)) groups.push_back({expert, before, received_rows - before});
      }
      hash = sum.value();
      sent_to = sorted(sends, orders.sent);
      received_from = sorted(receives, orders.received);
      if (orders.received == row_order::by_expert) return;
      groups.clear();
      for (auto const& s : receives) groups.push_back({s.expert, s.first, s.rows});
    }

    void add(expert_id expert, rank_id source, rank_id to, std::uint64_t tokens) {
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
    }

    /// The list of each peer. In an order by rank the rows lie as these lists do.
    [[nodiscard]] detail::per_rank<token_segment> sorted(segments& list, row_order order) const {
      auto by_peer = detail::per_rank<token_segment>{list, {0}};
      std::ranges::stable_sort(by_peer.items, {}, &token_segment::peer);
      for (std::size_t r = 0; r < device_loads.size(); ++r) {
        auto at = by_peer.begin.back();
        while (at < list.size() && by_peer.items[at].peer.index() == r) ++at;
        by_peer.begin.push_back(at);
      }
      if (order == row_order::by_expert) return by_peer;
      for (std::size_t next = 0; auto& s : by_peer.items) next += (s.first = next, s.rows);
      list = by_peer.items;
      return by_peer;
    }

    rank_id rank;
    row_orders orders;
    std::size_t sent_rows = 0;
    std::size_t received_rows = 0;
    std::uint64_t hash = 0;
    segments sends;
    segments receives;
    detail::per_rank<token_segment> sent_to;
    detail::per_rank<token_segment> received_from;
    std::vector<expert_rows> groups;
    std::vector<std::uint64_t> device_loads;
  };

  detail::shared_value<lists> lists_;
};

inline std::vector<std::uint32_t> token_plan::rows_by_expert() const {
  detail::require(sent_rows() <= std::numeric_limits<std::uint32_t>::max(),
                  "token_plan: ", sent_rows(), " rows are sent; expected less than 2^32");
  auto by_expert = segments{sends().begin(), sends().end()};
  std::ranges::sort(by_expert, {}, [](token_segment const& s) {
    return std::pair{s.expert, s.peer};
  });
  auto rows = std::vector<std::uint32_t>{};
  rows.reserve(sent_rows());
  for (auto const& s : by_expert)
    for (auto row = s.first; row < s.first + s.rows; ++row)
      rows.push_back(static_cast<std::uint32_t>(row));
  return rows;
}

}  // namespace fssdp
