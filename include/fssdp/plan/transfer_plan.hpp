// SPDX-License-Identifier: Apache-2.0
/// The plan: the transfers that realise a placement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/shared_value.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/plan_tables.hpp"
#include "fssdp/plan/transfer.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The list of all transfers, of whole chunks or of pieces. Forwards it is a gather; backwards it
/// is the transposed reduction, unless reduced_by has set another plan for reductions. It knows
/// layout, placement and topology, but no communicator, no sizes and no types, so layers of any
/// size can share it; if experts differ in size, it knows how many rows each has. Equal inputs give
/// equal plans on every rank.
///
/// A handle on immutable tables. A collective keeps a copy until it has run, so a plan may be a
/// temporary.
/// @cost a copy increments a reference count and does not allocate
class transfer_plan {
 public:
  /// Takes any transfers; `verify` checks whether they realise the placement. make_plan chooses
  /// good ones, schedule better ones for chunks of a known size.
  /// @param pieces the number of pieces that every chunk is cut into
  /// @throws argument_error if the layout breaks its law, an owner does not hold its expert in the
  ///         placement, the topology has other ranks, or `pieces` or an id in a transfer is out of
  ///         range
  template <shard_layout Layout>
  transfer_plan(Layout const& layout, placement where, std::vector<transfer> transfers,
                fssdp::topology const& topo = {}, int pieces = 1)
      : transfer_plan{{layout, std::move(where), topo}, std::move(transfers), pieces} {}
  /// The same from tables without transfers.
  transfer_plan(detail::plan_tables tables, std::vector<transfer> transfers, int pieces = 1);

  /// The same placement, realised by other transfers in gathers and in reductions.
  /// @throws argument_error as the constructor
  [[nodiscard]] transfer_plan realised_by(std::vector<transfer> transfers, int pieces) const;

  /// The same plan for gathers, and `other` for reductions.
  /// @throws argument_error unless `other` has the same layout, placement, topology and rows
  [[nodiscard]] transfer_plan reduced_by(transfer_plan const& other) const;
  /// The same plan for experts that differ in size: every tensor of expert e is [rows[e],
  /// elements], where `elements` is the size of a row. For example, rows are the hidden units of an
  /// expert, and elements the width of the model. chunk_bytes of schedule and simulate are then
  /// those of the largest expert. The offsets below say where the slots of a buffer begin.
  /// @param rows [experts]; empty: all experts have the same size again
  /// @throws argument_error if experts are sliced, there are not as many numbers as experts, or
  ///         their sum is too large
  [[nodiscard]] transfer_plan with_rows(std::vector<std::size_t> rows) const;
  /// Whether experts may differ in size.
  [[nodiscard]] bool has_rows() const { return !tables_->rows.empty(); }
  /// The rows of an expert; the most that any expert has. 1 if all have the same size.
  [[nodiscard]] std::size_t rows(expert_id expert) const {
    return has_rows() ? tables_->rows[expert.index()] : 1;
  }
  [[nodiscard]] std::size_t most_rows() const { return tables_->most_rows; }
  /// Where the rows of each chunk that a rank owns begin, in slot order, and where the last one
  /// ends; the same for its materialized and its remote experts. Empty if all have the same size.
  [[nodiscard]] std::span<std::size_t const> owned_offsets(rank_id rank) const {
    return has_rows() ? tables_->owned_offsets.of(rank) : std::span<std::size_t const>{};
  }
  [[nodiscard]] std::span<std::size_t const> materialized_offsets(rank_id rank) const {
    return has_rows() ? tables_->materialized_offsets.of(rank) : std::span<std::size_t const>{};
  }
  [[nodiscard]] std::span<std::size_t const> remote_offsets(rank_id rank) const {
    return has_rows() ? tables_->remote_offsets.of(rank) : std::span<std::size_t const>{};
  }

  /// The plan that reductions use backwards: this one, unless reduced_by has set another.
  [[nodiscard]] transfer_plan const& reduction() const {
    return tables_->reduction == nullptr ? *this : *tables_->reduction;
  }

  [[nodiscard]] int experts() const { return tables_->where.experts(); }
  /// The number of slices of an expert.
  [[nodiscard]] int slices() const { return tables_->slices; }
  /// The number of pieces of a chunk.
  [[nodiscard]] int pieces() const { return tables_->pieces; }
  [[nodiscard]] int ranks() const { return tables_->where.ranks(); }
  [[nodiscard]] fssdp::topology const& topology() const { return tables_->topology; }
  [[nodiscard]] int rounds() const { return tables_->transfers.rounds(); }
  [[nodiscard]] placement const& where() const { return tables_->where; }
  [[nodiscard]] rank_id owner(chunk_id chunk) const {
    return tables_->owner[tables_->position(chunk)];
  }
  /// The slot of a chunk in its owner's shard.
  [[nodiscard]] std::size_t owner_slot(chunk_id chunk) const {
    return static_cast<std::size_t>(tables_->slot[tables_->position(chunk)]);
  }
  /// All transfers in canonical order.
  [[nodiscard]] std::span<transfer const> transfers() const;
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return tables_->hash; }

  /// The experts that a rank computes with: all that it holds, ascending.
  [[nodiscard]] std::span<expert_id const> materialized(rank_id rank) const;
  /// The experts that take a slot among the replicas of a rank, ascending: those that it holds and
  /// does not own. If experts are sliced: all that it holds, as their slices have to be put
  /// together.
  [[nodiscard]] std::span<expert_id const> remote(rank_id rank) const;
  /// The number of chunks that a rank owns.
  [[nodiscard]] std::size_t owned_count(rank_id rank) const { return tables_->owned[rank.index()]; }
  /// The chunks that a rank owns and sends to others, ascending.
  [[nodiscard]] std::span<chunk_id const> shared(rank_id rank) const;
  /// The pieces of chunks that a rank does not own and passes on to others, ascending.
  [[nodiscard]] std::span<piece_id const> forwarded(rank_id rank) const;
  /// Of these, the pieces that it only relays, as it does not hold the expert, ascending.
  [[nodiscard]] std::span<piece_id const> relayed(rank_id rank) const;
  /// The position of an item in one of the lists above.
  [[nodiscard]] static std::size_t slot_in(std::span<expert_id const> list, expert_id item);
  [[nodiscard]] static std::size_t slot_in(std::span<chunk_id const> list, chunk_id const& item);
  [[nodiscard]] static std::size_t slot_in(std::span<piece_id const> list, piece_id const& item);

  /// For each transfer, the index of the one that brings the piece to its source; -1 if the source
  /// owns it.
  [[nodiscard]] std::span<int const> feeders() const;

  /// The kinds of links that a chunk travels over, in all its transfers.
  [[nodiscard]] link_use links(chunk_id chunk) const {
    return tables_->links[tables_->position(chunk)];
  }

  /// What a rank sends (receives) in a gather, in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const;
  /// The indices of the sends that pass on what a rank gets by its n-th receive.
  [[nodiscard]] std::span<int const> followers(rank_id rank, std::size_t received) const;
  /// The sends of a rank by round, then by piece and peer.
  [[nodiscard]] std::span<transfer const> batched_sends(rank_id rank) const;
  /// What it sends (receives) in one round, by piece and peer.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const;

  /// A handle without a reference count: it and its copies are valid while this plan exists. For
  /// calls that have finished when they return: ranks that are threads and share a plan need not
  /// count.
  [[nodiscard]] transfer_plan borrowed() const { return transfer_plan{tables_.borrowed()}; }

  friend bool operator==(transfer_plan const& a, transfer_plan const& b) { return a.equals(b); }

 private:
  explicit transfer_plan(detail::shared_value<detail::plan_tables> tables) : tables_{tables} {}
  [[nodiscard]] bool equals(transfer_plan const& other) const;
  explicit transfer_plan(detail::plan_tables tables);
  [[nodiscard]] static detail::plan_tables tables_of(detail::plan_tables tables,
                                                     std::vector<transfer> transfers, int pieces);

  detail::shared_value<detail::plan_tables> tables_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/transfer_plan_inl.hpp"
#endif
