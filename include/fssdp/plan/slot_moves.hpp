// SPDX-License-Identifier: Apache-2.0
/// The moves from one map of experts to another, in rounds in which a rank talks to one peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// An expert that comes into a slot.
struct slot_move {
  expert_id expert;
  physical_id from;  ///< a slot that has it before all moves
  physical_id to;
  int round = 0;  ///< in which it travels; on one rank: in which it is copied
  /// At the end of which it may be written to its slot, as nobody reads what that held before any
  /// more. Later than `round`, or in the same round if `waits`: it is received beside the slots.
  int placed = 0;
  bool waits = false;  ///< else it is received where it belongs
  friend bool operator==(slot_move const&, slot_move const&) = default;
};

/// How moves are put in order.
struct slot_move_options {
  fssdp::topology topology = {};  ///< without ranks: one node
  int group_size = 32;            ///< the most sends and receives of a rank in one round
  int scratch_slots = 2;          ///< experts that wait on a rank at a time, if that can be had
};

/// What an inference engine does to change its map in place. In a round a rank sends to one other
/// and receives from the same one, or does neither, so that pairs of ranks may proceed one behind the
/// other; a message is one expert. A slot is overwritten only when all that is to be sent of what it
/// held has been sent.
///
/// An expert comes from a slot of the rank itself, else of its node, else of any rank: the one with
/// the fewest sends so far.
/// @cost O(rounds * moves + moves log moves); a pure function
class slot_moves {
 public:
  /// @throws argument_error if the shapes of the maps differ, the topology has other ranks, or the
  ///         options allow nothing
  slot_moves(physical_experts const& before, physical_experts const& after,
             slot_move_options const& options = {});

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int slots_per_rank() const { return slots_per_rank_; }
  /// Which rank has a slot, and where it is there.
  [[nodiscard]] rank_id rank_of(physical_id slot) const {
    return rank_id{slot.value() / slots_per_rank_};
  }
  [[nodiscard]] std::size_t slot_on_rank(physical_id slot) const {
    return static_cast<std::size_t>(slot.value() % slots_per_rank_);
  }
  /// All of them, by round.
  [[nodiscard]] std::span<slot_move const> moves() const { return {moves_.data(), moves_.size()}; }
  [[nodiscard]] int rounds() const { return rounds_; }
  /// How many experts a rank needs room for beside its slots, at most.
  [[nodiscard]] int scratch_slots() const { return scratch_; }
  /// How many cross between ranks, and between nodes.
  [[nodiscard]] int sent() const { return sent_; }
  [[nodiscard]] int sent_between_nodes() const { return sent_between_nodes_; }
  /// 64 bits that differ, almost surely, if two lists of moves do.
  [[nodiscard]] std::uint64_t hash_value() const { return hash_; }

 private:
  int ranks_;
  int slots_per_rank_;
  std::vector<slot_move> moves_;
  std::uint64_t hash_ = 0;
  int rounds_ = 0;
  int scratch_ = 0;
  int sent_ = 0;
  int sent_between_nodes_ = 0;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/slot_moves_inl.hpp"
#endif
