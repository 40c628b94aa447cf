// SPDX-License-Identifier: Apache-2.0
/// Assigns moves to rounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/slot_moves.hpp"

namespace fssdp {

namespace detail {

/// Assigns moves to rounds, round by round.
class move_rounds {
 public:
  move_rounds(physical_experts const& before, physical_experts const& after, topology const& topo,
              slot_move_options const& options)
      : before_{before},
        options_{options},
        readers_(before.physical_to_logical().size()),
        waiting_(static_cast<std::size_t>(before.ranks())) {
    list(after, topo);
    while (done_ < moves_.size()) next_round();
    std::ranges::stable_sort(moves_, {}, &slot_move::round);
  }
  [[nodiscard]] std::vector<slot_move> take() { return std::move(moves_); }
  [[nodiscard]] int rounds() const { return round_; }
  [[nodiscard]] int scratch() const { return most_waiting_; }

 private:
  static constexpr int not_yet = -1;

  [[nodiscard]] rank_id rank_of(physical_id slot) const { return before_.rank_of(slot); }
  [[nodiscard]] bool is_local(slot_move const& move) const {
    return rank_of(move.from) == rank_of(move.to);
  }

  void list(physical_experts const& after, topology const& topo) {
    auto sends = std::vector<int>(static_cast<std::size_t>(before_.ranks()));
    for (std::size_t slot = 0; slot < readers_.size(); ++slot) {
      auto const expert = after.physical_to_logical()[slot];
      if (before_.physical_to_logical()[slot] == expert) continue;
      auto const to = physical_id{slot};
      auto const from =
          std::ranges::min(before_.logical_to_physical(expert), {}, [&](physical_id source) {
            auto const rank = rank_of(source);
            auto const far = rank == rank_of(to) ? 0 : topo.same_node(rank, rank_of(to)) ? 1 : 2;
            return std::tuple{far, sends[rank.index()], source};
          });
      moves_.push_back({expert, from, to, not_yet, not_yet, false});
      if (!is_local(moves_.back())) ++sends[rank_of(from).index()];
      ++readers_[from.index()];
    }
  }

  /// Pairs of ranks with most moves first, each rank in one pair; for a pair, first the moves that
  /// can be received in their slots.
  void next_round() {
    auto pairs = std::map<std::pair<rank_id, rank_id>, std::vector<std::size_t>>{};
    for (std::size_t i = 0; i < moves_.size(); ++i)
      if (moves_[i].round == not_yet) {
        auto const from = rank_of(moves_[i].from);
        auto const to = rank_of(moves_[i].to);
        pairs[{std::min(from, to), std::max(from, to)}].push_back(i);
      }
    auto order = std::vector<decltype(pairs)::const_pointer>{};
    for (auto const& pair : pairs) order.push_back(&pair);
    std::ranges::stable_sort(
        order, {}, [](auto const* pair) { return -static_cast<long>(pair->second.size()); });
    auto const before = done_;
    for (auto const may_crowd : {false, true}) {
      auto busy = std::vector<char>(waiting_.size());
      for (auto const* pair : order) {
        auto const [low, high] = pair->first;
        if (low != high && (busy[low.index()] != 0 || busy[high.index()] != 0)) continue;
        if (run(pair->second, low == high, may_crowd) && low != high)
          busy[low.index()] = busy[high.index()] = 1;
      }
      if (done_ != before) break;  // else nothing can move within the scratch that was asked for
    }
    finish_round();
  }
  /// Makes the moves that are possible between two ranks, or on one.
  /// @return whether there were any
  bool run(std::vector<std::size_t> const& list, bool local, bool may_crowd) {
    auto count = 0;
    for (auto const is_direct : {true, false})
      for (auto const i : list) {
        auto& move = moves_[i];
        if (move.round != not_yet || (!local && count == options_.group_size)) continue;
        if (is_direct != (readers_[move.to.index()] == 0)) continue;
        auto& waiting = waiting_[rank_of(move.to).index()];
        if (!is_direct && !may_crowd && waiting >= options_.scratch_slots) continue;
        if (!is_direct && may_crowd && count != 0) continue;  // only as many as needed
        move.round = round_;
        move.waits = !is_direct;
        if (move.waits) most_waiting_ = std::max(most_waiting_, ++waiting);
        moved_.push_back(i);
        ++count;
        ++done_;
      }
    return count != 0;
  }
  /// Slots whose experts have been read may be overwritten.
  void finish_round() {
    for (auto const i : moved_) --readers_[moves_[i].from.index()];
    for (auto& move : moves_) {
      if (move.round == not_yet || move.placed != not_yet) continue;
      if (move.waits && readers_[move.to.index()] != 0) continue;
      move.placed = round_;
      if (move.waits) --waiting_[rank_of(move.to).index()];
    }
    moved_.clear();
    ++round_;
  }

  physical_experts const& before_;
  slot_move_options const& options_;
  std::vector<slot_move> moves_;
  std::vector<int> readers_;        // [slots]: moves that still have to read its old expert
  std::vector<int> waiting_;        // [ranks]: experts in scratch
  std::vector<std::size_t> moved_;  // in this round
  std::size_t done_ = 0;
  int round_ = 0;
  int most_waiting_ = 0;
};

}  // namespace detail

FSSDP_INLINE slot_moves::slot_moves(physical_experts const& before, physical_experts const& after,
                                    slot_move_options const& options)
    : ranks_{before.ranks()}, slots_per_rank_{before.slots_per_rank()} {
  detail::require(before.experts() == after.experts() && before.ranks() == after.ranks() &&
                      before.slots_per_rank() == after.slots_per_rank(),
                  "slot_moves: from ", before.experts(), " experts in ", before.slots_per_rank(),
                  " slots of ", before.ranks(), " ranks to ", after.experts(), " in ",
                  after.slots_per_rank(), " of ", after.ranks(), "; expected equal numbers");
  detail::require(options.group_size >= 1, "slot_moves: group_size is ", options.group_size,
                  "; expected 1 or more");
  detail::require(options.scratch_slots >= 0, "slot_moves: scratch_slots is ",
                  options.scratch_slots, "; expected 0 or more");
  auto const topo = topology_or_one_node(options.topology, before.ranks());
  auto rounds = detail::move_rounds{before, after, topo, options};
  moves_ = rounds.take();
  rounds_ = rounds.rounds();
  scratch_ = rounds.scratch();
  auto hash = detail::hasher{};
  hash.mix(ranks_, slots_per_rank_);
  for (auto const& move : moves_) {
    hash.mix(move.from.value(), move.to.value());
    hash.mix(move.round, move.placed);
    hash.mix(move.expert.value(), move.waits ? 1 : 0);
    auto const from = before.rank_of(move.from);
    auto const to = before.rank_of(move.to);
    sent_ += from != to ? 1 : 0;
    sent_between_nodes_ += topo.same_node(from, to) ? 0 : 1;
  }
  hash_ = hash.value();
}

}  // namespace fssdp
