// SPDX-License-Identifier: Apache-2.0
/// The plan: the transfers that realise a placement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer.hpp"

namespace fssdp {

/// A value that says what moves: read forwards it is a gather, backwards the reduction that is its
/// transpose. It knows layout and placement, but no communicator, no sizes and no types, so that
/// layers of any size can share it. Equal inputs give equal plans on every rank.
class transfer_plan {
 public:
  /// Takes the transfers as they are; `verify` tells whether they do what the placement says.
  /// make_plan chooses good ones.
  /// @throws argument_error if the placement does not contain the layout, or a transfer names an
  ///         expert, rank or round that cannot be.
  template <shard_layout Layout>
  transfer_plan(Layout const& layout, placement where, std::vector<transfer> transfers)
      : where_{std::move(where)}, transfers_{std::move(transfers)} {
    check_contains(where_, layout);
    for (auto const expert : first_n<expert_id>(experts())) {
      owner_.push_back(layout.owner(expert));
      slot_.push_back(layout.slot(expert));
    }
    std::ranges::sort(transfers_);
    for (auto const& t : transfers_) {
      check(t);
      rounds_ = std::max(rounds_, t.round + 1);
    }
    index_experts();
    by_source_ = index_transfers(&transfer::source);
    by_destination_ = index_transfers(&transfer::destination);
    hash_ = hash();
  }

  [[nodiscard]] int experts() const { return where_.experts(); }
  [[nodiscard]] int ranks() const { return where_.ranks(); }
  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] placement const& where() const { return where_; }
  [[nodiscard]] rank_id owner(expert_id expert) const { return owner_[expert.index()]; }
  /// Where the expert lies in its owner's shard.
  [[nodiscard]] std::size_t owner_slot(expert_id expert) const {
    return static_cast<std::size_t>(slot_[expert.index()]);
  }
  /// All transfers in canonical order.
  [[nodiscard]] std::span<transfer const> transfers() const { return transfers_; }
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return hash_; }

  /// What a rank computes with: all it holds, ascending.
  [[nodiscard]] std::span<expert_id const> held(rank_id rank) const { return held_.of(rank); }
  /// What a rank holds and does not own, ascending: the slots of its replicas.
  [[nodiscard]] std::span<expert_id const> foreign(rank_id rank) const { return foreign_.of(rank); }
  [[nodiscard]] std::size_t owned_count(rank_id rank) const {
    return held(rank).size() - foreign(rank).size();
  }
  /// What a rank neither owns nor keeps to itself, ascending: it passes these on to others.
  [[nodiscard]] std::span<expert_id const> forwarded(rank_id rank) const {
    return forwarded_.of(rank);
  }
  /// The position of an expert in one of the lists above.
  [[nodiscard]] static std::size_t slot_in(std::span<expert_id const> list, expert_id expert) {
    return static_cast<std::size_t>(std::ranges::lower_bound(list, expert) - list.begin());
  }

  /// What a rank sends (receives) in one round of a gather, in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return of_round(by_source_.of(rank), round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return of_round(by_destination_.of(rank), round);
  }

  friend bool operator==(transfer_plan const& a, transfer_plan const& b) {
    return std::tie(a.owner_, a.slot_, a.where_, a.transfers_) ==
           std::tie(b.owner_, b.slot_, b.where_, b.transfers_);
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

  void check(transfer const& t) const {
    auto const rank_ok = [&](rank_id r) { return r.value() >= 0 && r.value() < ranks(); };
    detail::require(t.expert.value() >= 0 && t.expert.value() < experts(), "plan: expert ",
                    t.expert, "; expected 0 to ", experts() - 1);
    detail::require(rank_ok(t.source) && rank_ok(t.destination) && t.source != t.destination,
                    "plan: transfer of expert ", t.expert, " from rank ", t.source, " to rank ",
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
        if (owner(expert) != rank) foreign_.items.push_back(expert);
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
      if (end != &transfer::source) continue;
      auto const first = static_cast<std::ptrdiff_t>(forwarded_.items.size());
      for (auto const& t : index.of(rank))
        if (owner(t.expert) != rank) forwarded_.items.push_back(t.expert);
      std::sort(forwarded_.items.begin() + first, forwarded_.items.end());
      forwarded_.items.erase(std::unique(forwarded_.items.begin() + first, forwarded_.items.end()),
                             forwarded_.items.end());
      forwarded_.close();
    }
    return index;
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
    mix(ranks());
    for (std::size_t e = 0; e < owner_.size(); ++e) {
      mix(owner_[e].value());
      mix(slot_[e]);
    }
    for (auto const& t : transfers_) {
      mix(t.round);
      mix(t.expert.value());
      mix(t.source.value());
      mix(t.destination.value());
    }
    h = (h ^ (h >> 33U)) * 0xff51afd7ed558ccd;
    return h ^ (h >> 33U);
  }

  placement where_;
  std::vector<transfer> transfers_;
  std::vector<rank_id> owner_;
  std::vector<int> slot_;
  int rounds_ = 0;
  std::uint64_t hash_ = 0;
  per_rank<expert_id> held_;
  per_rank<expert_id> foreign_;
  per_rank<expert_id> forwarded_;
  per_rank<transfer> by_source_;
  per_rank<transfer> by_destination_;
};

}  // namespace fssdp
