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

/// A value that says what moves, chunk by chunk or in pieces of chunks: read forwards it is a
/// gather, backwards the reduction that is its transpose, unless reduced_by has named another plan
/// for that. It knows layout, placement and topology, but no communicator, no sizes and no types,
/// so that layers of any size can share it; of experts that differ in size it knows how many rows
/// each has. Equal inputs give equal plans on every rank.
///
/// A handle on tables that never change. A collective keeps a copy of it until it has run, so that
/// the plan that it is given may be a temporary.
/// @cost a copy counts a reference and allocates nothing
class transfer_plan {
 public:
  /// Takes the transfers as they are; `verify` tells whether they do what the placement says.
  /// make_plan chooses good ones, schedule better ones for chunks of a known size.
  /// @param pieces into how many every chunk is cut
  /// @throws argument_error if the layout breaks its law, the placement does not contain it, the
  ///         topology has other ranks, or a number of pieces, or what a transfer names, cannot be
  template <shard_layout Layout>
  transfer_plan(Layout const& layout, placement where, std::vector<transfer> transfers,
                fssdp::topology const& topo = {}, int pieces = 1)
      : transfer_plan{{layout, std::move(where), topo}, std::move(transfers), pieces} {}
  /// The same from what is known without the transfers.
  transfer_plan(detail::plan_tables tables, std::vector<transfer> transfers, int pieces = 1);

  /// The same placement, realised by other transfers, in gathers and in reductions.
  /// @throws argument_error as the constructor
  [[nodiscard]] transfer_plan realised_by(std::vector<transfer> transfers, int pieces) const;

  /// The same in gathers; reductions go by another plan of the same layout, placement and topology.
  /// @throws argument_error if it is of others
  [[nodiscard]] transfer_plan reduced_by(transfer_plan const& other) const;
  /// The same for experts that differ in size: expert e of every tensor is [rows[e], elements], of
  /// as many elements to the row as the tensor says, such as the hidden units of an expert times the
  /// width of the model. A chunk of so many bytes is then one of the most rows, for schedule and
  /// simulate. Buffers say where their slots begin by the offsets below.
  /// @param rows [experts]; none: all experts have the same size again
  /// @throws argument_error if experts are sliced, there are not as many numbers, or their sum is too
  ///         large
  [[nodiscard]] transfer_plan with_rows(std::vector<std::size_t> rows) const;
  /// Whether experts may differ in size.
  [[nodiscard]] bool has_rows() const { return !tables_->rows.empty(); }
  /// The rows of an expert, and the most that any has; 1 if all have the same size.
  [[nodiscard]] std::size_t rows(expert_id expert) const {
    return has_rows() ? tables_->rows[expert.index()] : 1;
  }
  [[nodiscard]] std::size_t most_rows() const { return tables_->most_rows; }
  /// Where the rows of the chunks that a rank owns begin, in slot order, and where the last ends;
  /// likewise of its materialized and its remote experts. None if all have the same size.
  [[nodiscard]] std::span<std::size_t const> owned_offsets(rank_id rank) const {
    return has_rows() ? tables_->owned_offsets.of(rank) : std::span<std::size_t const>{};
  }
  [[nodiscard]] std::span<std::size_t const> materialized_offsets(rank_id rank) const {
    return has_rows() ? tables_->materialized_offsets.of(rank) : std::span<std::size_t const>{};
  }
  [[nodiscard]] std::span<std::size_t const> remote_offsets(rank_id rank) const {
    return has_rows() ? tables_->remote_offsets.of(rank) : std::span<std::size_t const>{};
  }

  /// The plan that reductions read backwards: this one, unless another has been named.
  [[nodiscard]] transfer_plan const& reduction() const {
    return tables_->reduction == nullptr ? *this : *tables_->reduction;
  }

  [[nodiscard]] int experts() const { return tables_->where.experts(); }
  /// How many chunks an expert is cut into.
  [[nodiscard]] int slices() const { return tables_->slices; }
  /// How many pieces a chunk is cut into.
  [[nodiscard]] int pieces() const { return tables_->pieces; }
  [[nodiscard]] int ranks() const { return tables_->where.ranks(); }
  [[nodiscard]] fssdp::topology const& topology() const { return tables_->topology; }
  [[nodiscard]] int rounds() const { return tables_->transfers.rounds(); }
  [[nodiscard]] placement const& where() const { return tables_->where; }
  [[nodiscard]] rank_id owner(chunk_id chunk) const {
    return tables_->owner[tables_->position(chunk)];
  }
  /// Where the chunk lies in its owner's shard.
  [[nodiscard]] std::size_t owner_slot(chunk_id chunk) const {
    return static_cast<std::size_t>(tables_->slot[tables_->position(chunk)]);
  }
  /// All transfers in canonical order.
  [[nodiscard]] std::span<transfer const> transfers() const;
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return tables_->hash; }

  /// What a rank computes with: all the experts it holds, ascending.
  [[nodiscard]] std::span<expert_id const> materialized(rank_id rank) const;
  /// The experts that take a slot among the replicas of a rank, ascending: those it holds and does
  /// not own; where experts are sliced, all it holds, as they must be put together.
  [[nodiscard]] std::span<expert_id const> remote(rank_id rank) const;
  /// How many chunks a rank owns.
  [[nodiscard]] std::size_t owned_count(rank_id rank) const { return tables_->owned[rank.index()]; }
  /// The chunks that a rank owns and others get, ascending.
  [[nodiscard]] std::span<chunk_id const> shared(rank_id rank) const;
  /// The pieces of chunks that a rank does not own and passes on to others, ascending.
  [[nodiscard]] std::span<piece_id const> forwarded(rank_id rank) const;
  /// Those of them that it only relays, as it does not hold the expert, ascending.
  [[nodiscard]] std::span<piece_id const> relayed(rank_id rank) const;
  /// The position of an item in one of the lists above.
  [[nodiscard]] static std::size_t slot_in(std::span<expert_id const> list, expert_id item);
  [[nodiscard]] static std::size_t slot_in(std::span<chunk_id const> list, chunk_id const& item);
  [[nodiscard]] static std::size_t slot_in(std::span<piece_id const> list, piece_id const& item);

  /// For each transfer the one that brings the piece to its source, by position; -1 if the source
  /// owns it.
  [[nodiscard]] std::span<int const> feeders() const;

  /// Over which kinds of links a chunk travels, on all its ways.
  [[nodiscard]] link_use links(chunk_id chunk) const {
    return tables_->links[tables_->position(chunk)];
  }

  /// What a rank sends (receives) in a gather, in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const;
  /// Which of its sends pass on what a rank gets by its n-th receive, by position.
  [[nodiscard]] std::span<int const> followers(rank_id rank, std::size_t received) const;
  /// What it sends by round, then by piece and peer.
  [[nodiscard]] std::span<transfer const> batched_sends(rank_id rank) const;
  /// What it sends (receives) in one round, by piece and peer.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const;

  /// A handle that keeps nothing: it, and copies of it, are good while this one is there. For calls
  /// that have run when they return: ranks that are threads, and share a plan, need not count.
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
