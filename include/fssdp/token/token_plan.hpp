// SPDX-License-Identifier: Apache-2.0
/// Which rows of tokens go where: one rank's part in a dispatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/shared_value.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer_table.hpp"
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
  by_expert,  ///< by expert, then by peer: all rows of an expert lie one after the other
  by_rank     ///< by peer, then by expert: all rows of a message lie one after the other
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
      : lists_{listed(counts, routing, rank, orders)} {}
  /// Tokens go by the paper's rule.
  /// @throws argument_error as above, or if the topology has another number of ranks
  token_plan(token_counts const& counts, placement const& where, rank_id rank,
             topology const& topo = {}, row_orders const& orders = {});

  [[nodiscard]] rank_id rank() const { return lists_->rank; }
  [[nodiscard]] int ranks() const { return static_cast<int>(lists_->device_loads.size()); }
  [[nodiscard]] row_orders const& orders() const { return lists_->orders; }
  [[nodiscard]] std::size_t sent_rows() const { return lists_->sent_rows; }
  [[nodiscard]] std::size_t received_rows() const { return lists_->received_rows; }
  /// What leaves, as it lies: by (expert, receiver) or by (receiver, expert); the rank itself may
  /// be among the receivers.
  [[nodiscard]] std::span<token_segment const> sends() const;
  /// What arrives, as it lies: by (expert, source) or by (source, expert).
  [[nodiscard]] std::span<token_segment const> receives() const;
  /// What leaves for one rank, by expert.
  [[nodiscard]] std::span<token_segment const> sent_to(rank_id receiver) const;
  /// What arrives from one rank, by expert.
  [[nodiscard]] std::span<token_segment const> received_from(rank_id source) const;
  /// The received rows of every expert that the rank holds, ascending; there may be none of some.
  /// If they lie by rank: receives(), without the ranks.
  [[nodiscard]] std::span<expert_rows const> groups() const;
  /// Where rows that are sorted by expert, in the order of the tokens, lie when they are sent:
  /// [sent]. Row r is row result[r].
  /// @cost O(sent), and sorts sends(); two allocations
  /// @throws argument_error if 2^32 rows or more are sent
  [[nodiscard]] std::vector<std::uint32_t> rows_by_expert() const;
  /// Rows that each rank works on: [ranks].
  [[nodiscard]] std::span<std::uint64_t const> device_loads() const;
  /// The same on every rank, and almost surely another one for other counts, placements or orders.
  [[nodiscard]] std::uint64_t hash_value() const { return lists_->hash.value(); }

 private:
  using segments = std::vector<token_segment>;

  /// Filled once, then only read.
  struct lists {
    /// @throws argument_error unless counts and placement agree, and there is such a rank
    lists(token_counts const& counts, placement const& where, rank_id me, row_orders const& how);

    /// Tokens of an expert go from one rank to another. Experts ascend, and sources of each.
    void add(expert_id expert, rank_id source, rank_id to, std::uint64_t tokens);
    /// All of an expert have been added.
    /// @param held whether this rank holds it
    void end(expert_id expert, bool held);
    /// All of all experts have.
    void end_all();

    rank_id rank;
    row_orders orders;
    std::size_t sent_rows = 0;
    std::size_t received_rows = 0;
    std::size_t rows_before = 0;  // the expert that is being added
    detail::hasher hash = {};
    segments sends;
    segments receives;
    detail::per_rank<token_segment> sent_to;
    detail::per_rank<token_segment> received_from;
    std::vector<expert_rows> groups;
    std::vector<std::uint64_t> device_loads;
  };

  template <class Routing>
  [[nodiscard]] static lists listed(token_counts const& counts, Routing const& routing,
                                    rank_id rank, row_orders const& orders) {
    auto const& where = routing.where();
    auto all = lists{counts, where, rank, orders};
    for (auto const expert : first_n<expert_id>(where.experts())) {
      for (auto const source : first_n<rank_id>(where.ranks()))
        routing(source, expert, counts(source, expert),
                [&](rank_id to, std::uint64_t tokens) { all.add(expert, source, to, tokens); });
      all.end(expert, where.holds(rank, expert));
    }
    all.end_all();
    return all;
  }

  detail::shared_value<lists> lists_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/token/token_plan_inl.hpp"
#endif
