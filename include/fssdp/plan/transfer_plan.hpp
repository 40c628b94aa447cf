// SPDX-License-Identifier: Apache-2.0
/// The plan: the transfers that realise a placement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/hasher.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Over which kinds of links something travels.
struct link_use {
  bool between_nodes = false;
  bool inside_nodes = false;
  friend bool operator==(link_use const&, link_use const&) = default;
};

/// A value that says what moves, chunk by chunk or in pieces of chunks: read forwards it is a
/// gather, backwards the reduction that is its transpose, unless reduced_by has named another plan
/// for that. It knows layout, placement and machine, but no communicator, no sizes and no types, so
/// that layers of any size can share it. Equal inputs give equal plans on every rank.
class transfer_plan {
 public:
  /// Takes the transfers as they are; `verify` tells whether they do what the placement says.
  /// make_plan chooses good ones, schedule better ones for chunks of a known size.
  /// @param pieces into how many every chunk is cut
  /// @throws argument_error if the layout breaks its law, the placement does not contain it, the
  ///         topology has other ranks, or a number of pieces, or what a transfer names, cannot be
  template <shard_layout Layout>
  transfer_plan(Layout const& layout, placement where, std::vector<transfer> transfers,
                topology const& cluster = {}, int pieces = 1)
      : where_{std::move(where)},
        cluster_{topology_or_one_node(cluster, where_.ranks())},
        slices_{layout.slices()},
        pieces_{pieces} {
    check_layout(layout);
    check_contains(where_, layout);
    owned_.resize(static_cast<std::size_t>(ranks()));
    for (auto const chunk : all_chunks(layout)) {
      owner_.push_back(layout.owner(chunk));
      slot_.push_back(layout.slot(chunk));
      ++owned_[owner_.back().index()];
    }
    check(transfers);
    index_experts();
    take(std::move(transfers));
  }

  /// The same placement, realised by other transfers, in gathers and in reductions.
  /// @throws argument_error as the constructor
  [[nodiscard]] transfer_plan realised_by(std::vector<transfer> transfers, int pieces) const {
    auto other = *this;
    other.pieces_ = pieces;
    other.reduction_.reset();
    other.check(transfers);
    other.take(std::move(transfers));
    return other;
  }

  /// The same in gathers; reductions go by another plan of the same layout, placement and machine.
  /// @throws argument_error if it is of others
  [[nodiscard]] transfer_plan reduced_by(transfer_plan const& other) const {
    detail::require(
        std::tie(other.slices_, other.owner_, other.slot_, other.where_, other.cluster_) ==
            std::tie(slices_, owner_, slot_, where_, cluster_),
        "plan: reductions by a plan of another layout, placement or machine; expected the same");
    auto both = *this;
    both.reduction_ = std::make_shared<transfer_plan const>(other.reduction());
    both.hash_ = both.hash();
    return both;
  }
  /// The plan that reductions read backwards: this one, unless another has been named.
  [[nodiscard]] transfer_plan const& reduction() const {
    return reduction_ == nullptr ? *this : *reduction_;
  }

  [[nodiscard]] int experts() const { return where_.experts(); }
  /// How many chunks an expert is cut into.
  [[nodiscard]] int slices() const { return slices_; }
  /// How many pieces a chunk is cut into.
  [[nodiscard]] int pieces() const { return pieces_; }
  [[nodiscard]] int ranks() const { return where_.ranks(); }
  [[nodiscard]] topology const& cluster() const { return cluster_; }
  [[nodiscard]] int rounds() const { return transfers_.rounds(); }
  [[nodiscard]] placement const& where() const { return where_; }
  [[nodiscard]] rank_id owner(chunk_id chunk) const { return owner_[position(chunk)]; }
  /// Where the chunk lies in its owner's shard.
  [[nodiscard]] std::size_t owner_slot(chunk_id chunk) const {
    return static_cast<std::size_t>(slot_[position(chunk)]);
  }
  /// All transfers in canonical order.
  [[nodiscard]] std::span<transfer const> transfers() const { return transfers_.all(); }
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return hash_; }

  /// What a rank computes with: all the experts it holds, ascending.
  [[nodiscard]] std::span<expert_id const> materialized(rank_id rank) const {
    return materialized_.of(rank);
  }
  /// The experts that take a slot among the replicas of a rank, ascending: those it holds and does
  /// not own; where experts are sliced, all it holds, as they must be put together.
  [[nodiscard]] std::span<expert_id const> remote(rank_id rank) const { return remote_.of(rank); }
  /// How many chunks a rank owns.
  [[nodiscard]] std::size_t owned_count(rank_id rank) const { return owned_[rank.index()]; }
  /// The chunks that a rank owns and others get, ascending.
  [[nodiscard]] std::span<chunk_id const> shared(rank_id rank) const { return shared_.of(rank); }
  /// The pieces of chunks that a rank does not own and passes on to others, ascending.
  [[nodiscard]] std::span<piece_id const> forwarded(rank_id rank) const {
    return forwarded_.of(rank);
  }
  /// Those of them that it only relays, as it does not hold the expert, ascending.
  [[nodiscard]] std::span<piece_id const> relayed(rank_id rank) const { return relayed_.of(rank); }
  /// The position of an item in one of the lists above.
  template <class Item>
  [[nodiscard]] static std::size_t slot_in(std::span<Item const> list,
                                           std::type_identity_t<Item> const& item) {
    return static_cast<std::size_t>(std::ranges::lower_bound(list, item) - list.begin());
  }

  /// For each transfer the one that brings the piece to its source, by position; -1 if the source
  /// owns it.
  [[nodiscard]] std::span<int const> feeders() const { return transfers_.feeders(); }

  /// Over which kinds of links a chunk travels, on all its ways.
  [[nodiscard]] link_use links(chunk_id chunk) const { return links_[position(chunk)]; }

  /// What a rank sends (receives) in a gather, in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const {
    return transfers_.sends(rank);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const {
    return transfers_.receives(rank);
  }
  /// Which of its sends pass on what a rank gets by its n-th receive, by position.
  [[nodiscard]] std::span<int const> followers(rank_id rank, std::size_t received) const {
    return transfers_.followers(rank, received);
  }
  /// What it sends by round, then by piece and peer.
  [[nodiscard]] std::span<transfer const> batched_sends(rank_id rank) const {
    return transfers_.batched_sends(rank);
  }
  /// What it sends (receives) in one round, by piece and peer.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return transfers_.sends(rank, round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return transfers_.receives(rank, round);
  }

  friend bool operator==(transfer_plan const& a, transfer_plan const& b) {
    auto const same_gather =
        std::tie(a.slices_, a.pieces_, a.owner_, a.slot_, a.where_, a.transfers_.all()) ==
        std::tie(b.slices_, b.pieces_, b.owner_, b.slot_, b.where_, b.transfers_.all());
    if (a.reduction_ == nullptr || b.reduction_ == nullptr)
      return same_gather && a.reduction_ == b.reduction_;
    return same_gather && *a.reduction_ == *b.reduction_;
  }

 private:
  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices_) + chunk.slice.index();
  }

  void check(std::vector<transfer> const& transfers) const {
    detail::require(pieces_ >= 1 && pieces_ <= most_pieces, "plan: ", pieces_,
                    " pieces; expected 1 to ", most_pieces);
    for (auto const& t : transfers) check(t, transfers.size());
  }
  void check(transfer const& t, std::size_t count) const {
    auto const [expert, slice] = t.chunk;
    auto const rank_ok = [&](rank_id r) { return r.value() >= 0 && r.value() < ranks(); };
    detail::require(expert.value() >= 0 && expert.value() < experts(), "plan: expert ", expert,
                    "; expected 0 to ", experts() - 1);
    detail::require(slice.value() >= 0 && slice.value() < slices_, "plan: slice ", slice,
                    "; expected 0 to ", slices_ - 1);
    detail::require(rank_ok(t.source) && rank_ok(t.destination) && t.source != t.destination,
                    "plan: transfer of slice ", slice, " of expert ", expert, " from rank ",
                    t.source, " to rank ", t.destination,
                    "; expected two different ranks from 0 to ", ranks() - 1);
    detail::require(t.piece >= 0 && t.piece < pieces_, "plan: piece ", t.piece, "; expected 0 to ",
                    pieces_ - 1);
    detail::require(owner(t.chunk) != t.destination, "plan: rank ", t.destination, " gets slice ",
                    slice, " of expert ", expert, "; expected a rank that does not own it");
    detail::require(t.round >= 0 && t.round < static_cast<int>(count), "plan: round ", t.round,
                    "; expected 0 or more, and fewer rounds than transfers");
  }

  void index_experts() {
    for (auto const rank : first_n<rank_id>(ranks())) {
      for (auto const expert : first_n<expert_id>(experts())) {
        if (!where_.holds(rank, expert)) continue;
        materialized_.items.push_back(expert);
        auto const in_place = slices_ == 1 && owner(expert) == rank;
        if (!in_place) remote_.items.push_back(expert);
      }
      materialized_.close();
      remote_.close();
    }
  }

  void take(std::vector<transfer> transfers) {
    transfers_ = {std::move(transfers), ranks()};
    transfers_.link(owner_.size() * static_cast<std::size_t>(pieces_), [this](piece_id piece) {
      return position(piece.chunk) * static_cast<std::size_t>(pieces_) +
             static_cast<std::size_t>(piece.index);
    });
    index_sent();
    index_links();
    hash_ = hash();
  }

  /// What each rank sends, once each, by whether it owns it.
  void index_sent() {
    shared_ = {};
    forwarded_ = {};
    relayed_ = {};
    auto sent = std::vector<piece_id>{};
    for (auto const rank : first_n<rank_id>(ranks())) {
      sent.clear();
      for (auto const& t : transfers_.sends(rank)) sent.push_back(t.what());
      std::ranges::sort(sent);
      sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
      for (auto const& piece : sent) {
        if (owner(piece.chunk) == rank) {
          if (shared_.items.size() == shared_.begin.back() || shared_.items.back() != piece.chunk)
            shared_.items.push_back(piece.chunk);
        } else {
          forwarded_.items.push_back(piece);
          if (!where_.holds(rank, piece.chunk.expert)) relayed_.items.push_back(piece);
        }
      }
      shared_.close();
      forwarded_.close();
      relayed_.close();
    }
  }

  void index_links() {
    links_.assign(owner_.size(), {});
    for (auto const& t : transfers_.all()) {
      auto& used = links_[position(t.chunk)];
      (cluster_.same_node(t.source, t.destination) ? used.inside_nodes : used.between_nodes) = true;
    }
  }

  [[nodiscard]] std::uint64_t hash() const {
    auto hash = detail::hasher{};
    hash.mix(experts());
    hash.mix(slices_, pieces_);
    hash.mix(ranks());
    for (std::size_t e = 0; e < owner_.size(); ++e) {
      hash.mix(owner_[e].value(), slot_[e]);
    }
    for (auto const first : materialized_.begin) hash.mix(first);
    for (auto const expert : materialized_.items) hash.mix(expert.value());
    transfers_.mix_into(hash);
    if (reduction_ != nullptr) hash.mix(reduction_->hash_);
    return hash.value();
  }

  placement where_;
  topology cluster_;
  int slices_;
  int pieces_;
  detail::transfer_table transfers_;
  std::vector<rank_id> owner_;      // [chunks]
  std::vector<int> slot_;           // [chunks]
  std::vector<link_use> links_;     // [chunks]
  std::vector<std::size_t> owned_;  // [ranks]: how many chunks
  std::uint64_t hash_ = 0;
  std::shared_ptr<transfer_plan const> reduction_;  // null: this one
  detail::per_rank<expert_id> materialized_;
  detail::per_rank<expert_id> remote_;
  detail::per_rank<chunk_id> shared_;
  detail::per_rank<piece_id> forwarded_;
  detail::per_rank<piece_id> relayed_;
};

}  // namespace fssdp
