// SPDX-License-Identifier: Apache-2.0
/// The plan: the transfers that realise a placement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer.hpp"

namespace fssdp {

/// A value that says what moves, chunk by chunk: read forwards it is a gather, backwards the
/// reduction that is its transpose. It knows layout and placement, but no communicator, no sizes and
/// no types, so that layers of any size can share it. Equal inputs give equal plans on every rank.
class transfer_plan {
 public:
  /// Takes the transfers as they are; `verify` tells whether they do what the placement says.
  /// make_plan chooses good ones.
  /// @throws argument_error if the layout breaks its law, the placement does not contain it, or a
  ///         transfer names a chunk, rank or round that cannot be.
  template <shard_layout Layout>
  transfer_plan(Layout const& layout, placement where, std::vector<transfer> transfers)
      : where_{std::move(where)}, slices_{layout.slices()}, transfers_{std::move(transfers)} {
    check_layout(layout);
    check_contains(where_, layout);
    owned_.resize(static_cast<std::size_t>(ranks()));
    for (auto const chunk : all_chunks(layout)) {
      owner_.push_back(layout.owner(chunk));
      slot_.push_back(layout.slot(chunk));
      ++owned_[owner_.back().index()];
    }
    std::ranges::sort(transfers_);
    for (auto const& t : transfers_) {
      check(t);
      rounds_ = std::max(rounds_, t.round + 1);
    }
    index_experts();
    by_source_ = index_transfers(&transfer::source);
    by_destination_ = index_transfers(&transfer::destination);
    index_sent_chunks();
    hash_ = hash();
  }

  [[nodiscard]] int experts() const { return where_.experts(); }
  /// How many chunks an expert is cut into.
  [[nodiscard]] int slices() const { return slices_; }
  [[nodiscard]] int ranks() const { return where_.ranks(); }
  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] placement const& where() const { return where_; }
  [[nodiscard]] rank_id owner(chunk_id chunk) const { return owner_[position(chunk)]; }
  /// Where the chunk lies in its owner's shard.
  [[nodiscard]] std::size_t owner_slot(chunk_id chunk) const {
    return static_cast<std::size_t>(slot_[position(chunk)]);
  }
  /// All transfers in canonical order.
  [[nodiscard]] std::span<transfer const> transfers() const { return transfers_; }
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return hash_; }

  /// What a rank computes with: all the experts it holds, ascending.
  [[nodiscard]] std::span<expert_id const> held(rank_id rank) const { return held_.of(rank); }
  /// The experts that take a slot among the replicas of a rank, ascending: those it holds and does
  /// not own; where experts are sliced, all it holds, as they must be put together.
  [[nodiscard]] std::span<expert_id const> foreign(rank_id rank) const { return foreign_.of(rank); }
  /// How many chunks a rank owns.
  [[nodiscard]] std::size_t owned_count(rank_id rank) const { return owned_[rank.index()]; }
  /// The chunks that a rank owns and others get, ascending.
  [[nodiscard]] std::span<chunk_id const> shared(rank_id rank) const { return shared_.of(rank); }
  /// The chunks that a rank does not own and passes on to others, ascending.
  [[nodiscard]] std::span<chunk_id const> forwarded(rank_id rank) const {
    return forwarded_.of(rank);
  }
  /// The position of an item in one of the lists above.
  template <class Item>
  [[nodiscard]] static std::size_t slot_in(std::span<Item const> list,
                                           std::type_identity_t<Item> const& item) {
    return static_cast<std::size_t>(std::ranges::lower_bound(list, item) - list.begin());
  }

  /// What a rank sends (receives) in one round of a gather, in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return of_round(by_source_.of(rank), round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return of_round(by_destination_.of(rank), round);
  }

  friend bool operator==(transfer_plan const& a, transfer_plan const& b) {
    return std::tie(a.slices_, a.owner_, a.slot_, a.where_, a.transfers_) ==
           std::tie(b.slices_, b.owner_, b.slot_, b.where_, b.transfers_);
  }

 private:
  /// A list per rank, one behind the other.
  template <class T>
  struct per_rank {
    std::vector<T> items;
    std::vector<std::size_t> begin = {0};
    void close() { begin.push_back(items.size()); }
    [[nodiscard]] std::span<T const> of(rank_id rank) const {
      return std::span{items}.subspan(begin[rank.index()],
                                      begin[rank.index() + 1] - begin[rank.index()]);
    }
  };

  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices_) + chunk.slice.index();
  }

  void check(transfer const& t) const {
    auto const [expert, slice] = t.chunk;
    auto const rank_ok = [&](rank_id r) { return r.value() >= 0 && r.value() < ranks(); };
    detail::require(expert.value() >= 0 && expert.value() < experts(), "plan: expert ", expert,
                    "; expected 0 to ", experts() - 1);
    detail::require(slice.value() >= 0 && slice.value() < slices_, "plan: slice ", slice,
                    "; expected 0 to ", slices_ - 1);
    detail::require(rank_ok(t.source) && rank_ok(t.destination) && t.source != t.destination,
                    "plan: transfer of expert ", expert, " from rank ", t.source, " to rank ",
                    t.destination, "; expected two different ranks from 0 to ", ranks() - 1);
    auto const most = static_cast<int>(transfers_.size());
    detail::require(t.round >= 0 && t.round < most, "plan: round ", t.round,
                    "; expected 0 or more, and fewer rounds than transfers");
  }

  void index_experts() {
    for (auto const rank : first_n<rank_id>(ranks())) {
      for (auto const expert : first_n<expert_id>(experts())) {
        if (!where_.holds(rank, expert)) continue;
        held_.items.push_back(expert);
        auto const in_place = slices_ == 1 && owner(expert) == rank;
        if (!in_place) foreign_.items.push_back(expert);
      }
      held_.close();
      foreign_.close();
    }
  }

  per_rank<transfer> index_transfers(rank_id transfer::*end) {
    auto index = per_rank<transfer>{.items = transfers_};
    std::ranges::stable_sort(index.items, {}, end);
    for (auto const rank : first_n<rank_id>(ranks())) {
      auto const behind = std::ranges::upper_bound(index.items, rank, {}, end);
      index.begin.push_back(static_cast<std::size_t>(behind - index.items.begin()));
    }
    return index;
  }

  /// What each rank sends, once each, by whether it owns it.
  void index_sent_chunks() {
    auto sent = std::vector<chunk_id>{};
    for (auto const rank : first_n<rank_id>(ranks())) {
      sent.clear();
      for (auto const& t : by_source_.of(rank)) sent.push_back(t.chunk);
      std::ranges::sort(sent);
      sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
      for (auto const chunk : sent)
        (owner(chunk) == rank ? shared_ : forwarded_).items.push_back(chunk);
      shared_.close();
      forwarded_.close();
    }
  }

  static std::span<transfer const> of_round(std::span<transfer const> list, int round) {
    auto const first = std::ranges::lower_bound(list, round, {}, &transfer::round);
    return {first, std::ranges::upper_bound(first, list.end(), round, {}, &transfer::round)};
  }

  [[nodiscard]] std::uint64_t hash() const {  // FNV-1a over 64-bit words, with a final mix
    auto h = std::uint64_t{0xcbf29ce484222325};
    auto const mix = [&h](auto value) {
      h = (h ^ static_cast<std::uint64_t>(value)) * 0x100000001b3;
    };
    mix(experts());
    mix(slices_);
    mix(ranks());
    for (std::size_t e = 0; e < owner_.size(); ++e) {
      mix(owner_[e].value());
      mix(slot_[e]);
    }
    for (auto const& t : transfers_) {
      mix(t.round);
      mix(t.chunk.expert.value());
      mix(t.chunk.slice.value());
      mix(t.source.value());
      mix(t.destination.value());
    }
    h = (h ^ (h >> 33U)) * 0xff51afd7ed558ccd;
    return h ^ (h >> 33U);
  }

  placement where_;
  int slices_;
  std::vector<transfer> transfers_;
  std::vector<rank_id> owner_;      // [chunks]
  std::vector<int> slot_;           // [chunks]
  std::vector<std::size_t> owned_;  // [ranks]: how many chunks
  int rounds_ = 0;
  std::uint64_t hash_ = 0;
  per_rank<expert_id> held_;
  per_rank<expert_id> foreign_;
  per_rank<chunk_id> shared_;
  per_rank<chunk_id> forwarded_;
  per_rank<transfer> by_source_;
  per_rank<transfer> by_destination_;
};

}  // namespace fssdp
