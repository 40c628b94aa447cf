// SPDX-License-Identifier: Apache-2.0
/// What a plan knows: the transfers, and for every rank and chunk what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Over which kinds of links something travels.
struct link_use {
  bool between_nodes = false;
  bool inside_nodes = false;
  friend bool operator==(link_use const&, link_use const&) = default;
};

namespace detail {

/// The tables behind a transfer_plan, which says what each is. Filled once, then only read.
struct plan_tables {
  /// Everything but the transfers.
  /// @throws argument_error if the layout breaks its law, the placement does not contain it, or the
  ///         topology has other ranks
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

  /// Gives every expert its number of rows; none: all have the same size.
  /// @throws argument_error if experts are sliced, there are not as many numbers, or their sum is
  ///         too large
  void take_rows(std::vector<std::size_t> of_experts);

  /// Replaces the transfers. Reductions go by them, too.
  /// @throws argument_error if a number of pieces, or what a transfer names, cannot be
  void take(std::vector<transfer> list, int into_pieces);

  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices) + chunk.slice.index();
  }
  /// All that tells this gather from others.
  [[nodiscard]] hasher hashed() const;

  placement where;
  fssdp::topology topology;
  int slices;
  int pieces = 1;
  transfer_table transfers;
  std::vector<rank_id> owner;      // [chunks]
  std::vector<int> slot;           // [chunks]
  std::vector<link_use> links;     // [chunks]
  std::vector<std::size_t> owned;  // [ranks]: how many chunks
  std::uint64_t hash = 0;
  std::shared_ptr<transfer_plan const> reduction;  // null: the plan itself
  per_rank<expert_id> materialized;
  per_rank<expert_id> remote;
  per_rank<chunk_id> shared;
  per_rank<piece_id> forwarded;
  per_rank<piece_id> relayed;
  std::vector<std::size_t> rows;        // [experts], or none
  std::size_t most_rows = 1;            // of one expert
  per_rank<std::size_t> owned_offsets;  // of each list of a rank, where its experts' rows begin
  per_rank<std::size_t> materialized_offsets;
  per_rank<std::size_t> remote_offsets;

 private:
  void index_rows();
  void check(transfer const& t, std::size_t count) const;

  /// For what is known of each chunk and each rank.
  void make_room();
  void index_owners();
  void index_experts();

  /// What each rank sends, once each, by whether it owns it.
  void index_sent();

  void index_links();
};

}  // namespace detail
}  // namespace fssdp
