// SPDX-License-Identifier: Apache-2.0
/// Moves the experts of an inference engine to the slots of a new map, in place.
#pragma once

#include <type_traits>
#include <utility>

#include "fssdp/collective/reshard.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/slot_moves.hpp"

namespace fssdp {

namespace detail {

/// The moves of one rank, ready to run.
class slot_moves_call {
 public:
  slot_moves_call(slot_moves moves, tensor_list slots, reshard_options const& options)
      : moves_{std::move(moves)}, slots_{std::move(slots)}, options_{options} {}

  /// @throws argument_error unless the slots fit the moves
  void check(int ranks) const;

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }
  void run(communicator_ref const& comm) const;

 private:
  slot_moves moves_;
  tensor_list slots_;
  reshard_options options_;
};

}  // namespace detail

/// Makes the moves: afterwards every slot has its expert of the new map.
///
/// @param slots [slots_per_rank, elements] per tensor: of one buffer, or of several, as bytes_of
///              returns them
/// @param options scratch, kept between calls: moves.scratch_slots() slots of all tensors
/// @pre every rank calls with equal moves and equal sizes; the memory and the scratch live until
///      the communicator is synchronized
/// @post slots that are not the target of a move are unchanged. After a transport error the
///       contents of all slots are unspecified
/// @cost one exchange per round, with one message per tensor for each expert that this rank sends
///       or receives; copies of experts that wait for their slot, and of those that stay on their
///       rank; one copy of the list of moves
/// @throws argument_error before anything is sent; transport errors
template <communicator Comm, tensor_memory Slots>
requires outlives_the_call<Slots, Comm>
void move_slots(Comm& comm, slot_moves const& moves, Slots&& slots,
                reshard_options const& options = {}) {
  static_assert(!is_read_only<Slots>, "expected slots that can be written");
  auto call = detail::slot_moves_call{moves, detail::tensor_list{slots}, options};
  call.check(comm.size());
  submit(comm, std::move(call));
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/move_slots_inl.hpp"
#endif
