// SPDX-License-Identifier: Apache-2.0
/// Which rows of tokens are sent where: one rank's part in a dispatch.
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

/// Consecutive rows of one expert that are sent to, or received from, one rank.
struct token_segment {
  expert_id expert;
  rank_id peer;
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(token_segment const&, token_segment const&) = default;
};

/// Consecutive received rows of one expert.
struct expert_rows {
  expert_id expert;
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(expert_rows const&, expert_rows const&) = default;
};

/// The order of the rows of a rank.
enum class row_order {
  by_expert,  ///< by expert, then by peer: the rows of an expert are contiguous
  by_rank     ///< by peer, then by expert: the rows of a message are contiguous
};

/// The orders of sent and received rows. Equal on all ranks.
struct row_orders {
  /// permute writes rows by expert; for by_rank, use an expert_order that is made with the plan.
  row_order sent = row_order::by_expert;
  /// With by_rank, an expert has a group of rows from each source that sends it any.
  row_order received = row_order::by_expert;
};

/// A pure value: all ranks compute theirs from the same counts, so nothing else is exchanged. Used
/// in the forward and the backward pass of a layer. No token is dropped.
///
/// The rows for an expert are in the order of the tokens: the first rows go to its first receiver,
/// and so on. A handle on immutable lists: dispatch and combine keep a copy until they have run, so
/// a plan may be a temporary.
/// @cost a copy increments a reference count and does not allocate
class token_plan {
 public:
  /// Sends tokens as the routing says.
  /// @throws argument_error if counts and placement differ in ranks or experts, or the rank does
  ///         not exist
  template <token_routing Routing>
  token_plan(token_counts const& counts, Routing const& routing, rank_id rank,
             row_orders const& orders = {})
      : lists_{listed(counts, routing, rank, orders)} {}
  /// Sends tokens by the rule of the paper (even_routing).
  /// @throws argument_error as above, or if the topology has a different number of ranks
  token_plan(token_counts const& counts, placement const& where, rank_id rank,
             topology const& topo = {}, row_orders const& orders = {});

  [[nodiscard]] rank_id rank() const { return lists_->rank; }
  [[nodiscard]] int ranks() const { return static_cast<int>(lists_->device_loads.size()); }
  [[nodiscard]] row_orders const& orders() const { return lists_->orders; }
  [[nodiscard]] std::size_t sent_rows() const { return lists_->sent_rows; }
  [[nodiscard]] std::size_t received_rows() const { return lists_->received_rows; }
  /// The sent rows in their order: by (expert, receiver) or by (receiver, expert). The rank itself
  /// may be a receiver.
  [[nodiscard]] std::span<token_segment const> sends() const;
  /// The received rows in their order: by (expert, source) or by (source, expert).
  [[nodiscard]] std::span<token_segment const> receives() const;
  /// The rows sent to one rank, by expert.
  [[nodiscard]] std::span<token_segment const> sent_to(rank_id receiver) const;
  /// The rows received from one rank, by expert.
  [[nodiscard]] std::span<token_segment const> received_from(rank_id source) const;
  /// The received rows of every expert that the rank holds, ascending; also of experts without
  /// rows. With row_order::by_rank: the same groups as receives(), without the ranks.
  [[nodiscard]] std::span<expert_rows const> groups() const;
  /// Maps rows that are sorted by expert, in the order of the tokens, to the order in which they
  /// are sent: [sent]. Row r becomes row result[r].
  /// @cost O(sent), and sorts sends(); two allocations
  /// @throws argument_error if 2^32 rows or more are sent
  [[nodiscard]] std::vector<std::uint32_t> rows_by_expert() const;
  /// The rows that each rank computes: [ranks].
  [[nodiscard]] std::span<std::uint64_t const> device_loads() const;
  /// Equal on all ranks; almost surely different for other counts, placements or orders.
  [[nodiscard]] std::uint64_t hash_value() const { return lists_->hash.value(); }

 private:
  using segments = std::vector<token_segment>;

  /// Filled once, then only read.
  struct lists {
    /// @throws argument_error unless counts and placement agree, and the rank exists
    lists(token_counts const& counts, placement const& where, rank_id me, row_orders const& how);

    /// Adds tokens of an expert that go from one rank to another, by ascending expert, then source.
    void add(expert_id expert, rank_id source, rank_id to, std::uint64_t tokens);
    /// Ends an expert.
    /// @param held whether this rank holds it
    void end(expert_id expert, bool held);
    /// Ends the list.
    void end_all();

    rank_id rank;
    row_orders orders;
    std::size_t sent_rows = 0;
    std::size_t received_rows = 0;
    std::size_t rows_before = 0;  // received rows of the experts before the current one
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
