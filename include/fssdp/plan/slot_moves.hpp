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

/// A copy of an expert to a slot.
struct slot_move {
  expert_id expert;
  physical_id from;  ///< a slot that has it before all moves
  physical_id to;
  int round = 0;  ///< in which it is sent, or copied within its rank
  /// The round at the end of which it may be written to its slot, as the old expert there is no
  /// longer needed. If `waits`, it is received in scratch before, in a round up to this one.
  int placed = 0;
  bool waits = false;  ///< false: it is received in its slot
  friend bool operator==(slot_move const&, slot_move const&) = default;
};

/// Options of slot_moves.
struct slot_move_options {
  fssdp::topology topology = {};  ///< if empty: one node
  int group_size = 32;            ///< the most sends and receives of a rank in one round
  int scratch_slots = 2;          ///< experts that may wait on a rank at a time, if possible
};

/// The moves with which an inference engine changes its map in place. In a round, a rank exchanges
/// messages with one other rank at most, so that pairs of ranks may proceed independently; a
/// message is one expert. A slot is overwritten only when its old expert has been sent wherever it
/// is needed.
///
/// An expert comes from a slot of the same rank, else of the same node, else of any rank: of the
/// one with fewest sends so far.
/// @cost O(rounds * moves + moves log moves); a pure function
class slot_moves {
 public:
  /// @throws argument_error if the shapes of the maps differ, the topology has other ranks, or an
  ///         option is out of range
  slot_moves(physical_experts const& before, physical_experts const& after,
             slot_move_options const& options = {});

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int slots_per_rank() const { return slots_per_rank_; }
  /// The rank of a slot, and its index there.
  [[nodiscard]] rank_id rank_of(physical_id slot) const {
    return rank_id{slot.value() / slots_per_rank_};
  }
  [[nodiscard]] std::size_t slot_on_rank(physical_id slot) const {
    return static_cast<std::size_t>(slot.value() % slots_per_rank_);
  }
  /// All moves, by round.
  [[nodiscard]] std::span<slot_move const> moves() const { return {moves_.data(), moves_.size()}; }
  [[nodiscard]] int rounds() const { return rounds_; }
  /// The largest number of scratch slots that a rank needs.
  [[nodiscard]] int scratch_slots() const { return scratch_; }
  /// The number of experts that are sent between ranks; between nodes.
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
