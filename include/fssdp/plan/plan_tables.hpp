// SPDX-License-Identifier: Apache-2.0
/// The data of a plan: the transfers, and what follows from them for every rank and chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

class transfer_plan;

/// The kinds of links that a chunk travels over.
struct link_use {
  bool between_nodes = false;
  bool inside_nodes = false;
  friend bool operator==(link_use const&, link_use const&) = default;
};

namespace detail {

/// The limit of the sum of rows: leaves room to add to it without overflow.
inline constexpr auto most_sum_of_rows = std::numeric_limits<std::size_t>::max() / 4;

/// The tables of a transfer_plan, where each is documented. Filled once, then only read.
struct plan_tables {
  /// All tables without transfers.
  /// @throws argument_error if the layout breaks its law, an owner does not hold its expert in the
  ///         placement, or the topology has other ranks
  template <shard_layout Layout>
  plan_tables(Layout const& layout, placement held, fssdp::topology const& topo)
      : where{std::move(held)},
        topology{topology_or_one_node(topo, where.ranks())},
        slices{layout.slices()} {
    check_layout(layout);
    check_contains(where, layout);
    make_room();
    for (auto const chunk : all_chunks(layout)) {
      owner[position(chunk)] = layout.owner(chunk);
      slot[position(chunk)] = layout.slot(chunk);
    }
    index_owners();
    index_experts();
  }

  /// Sets the number of rows of every expert; empty: all have the same size.
  /// @throws argument_error if experts are sliced, there are not as many numbers as experts, or
  ///         their sum is too large
  void take_rows(std::vector<std::size_t> of_experts);

  /// Replaces the transfers, also those of reductions.
  /// @throws argument_error if `into_pieces`, or an id in a transfer, is out of range
  void take(std::vector<transfer> list, int into_pieces);

  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices) + chunk.slice.index();
  }
  /// A hash of everything that distinguishes this gather from others.
  [[nodiscard]] hasher hashed() const;

  placement where;
  fssdp::topology topology;
  int slices;
  int pieces = 1;
  transfer_table transfers;
  std::vector<rank_id> owner;      // [chunks]
  std::vector<int> slot;           // [chunks]
  std::vector<link_use> links;     // [chunks]
  std::vector<std::size_t> owned;  // [ranks]: the number of chunks
  std::uint64_t hash = 0;
  std::shared_ptr<transfer_plan const> reduction;  // null: the plan itself
  per_rank<expert_id> materialized;
  per_rank<expert_id> remote;
  per_rank<chunk_id> shared;
  per_rank<piece_id> forwarded;
  per_rank<piece_id> relayed;
  std::vector<std::size_t> rows;        // [experts], or none
  std::size_t most_rows = 1;            // of one expert
  per_rank<std::size_t> owned_offsets;  // of each list of a rank: where rows begin
  per_rank<std::size_t> materialized_offsets;
  per_rank<std::size_t> remote_offsets;

 private:
  void index_rows();
  void check(transfer const& t, std::size_t count) const;

  /// Allocates the tables of chunks and ranks.
  void make_room();
  void index_owners();
  void index_experts();

  /// Lists what each rank sends, each chunk once, by whether the rank owns it.
  void index_sent();

  void index_links();
};

}  // namespace detail
}  // namespace fssdp
