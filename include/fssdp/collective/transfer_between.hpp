// SPDX-License-Identifier: Apache-2.0
/// Moves experts from any distribution to any other: other ranks, slices, replicas, types.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/redistribution.hpp"

namespace fssdp {

namespace detail {

/// A transfer on one rank, ready to run.
class between_call {
 public:
  between_call(redistribution const& plan, rank_id rank, tensor_list from, tensor_list to,
               find_conversion find, gather_options const& options)
      : plan_{plan},
        rank_{rank},
        from_{std::move(from)},
        to_{std::move(to)},
        find_{find},
        options_{options} {}

  /// @throws argument_error unless the buffers fit the plan
  void check(int ranks) const;
  /// What it takes of scratch.
  /// @pre check accepts it
  [[nodiscard]] std::size_t scratch_bytes() const;

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }
  void run(communicator_ref const& comm) const;

 private:
  redistribution plan_;
  rank_id rank_;
  tensor_list from_;
  tensor_list to_;
  find_conversion find_;
  gather_options options_;
};

}  // namespace detail

/// Copies experts from where a distribution has them to where another one wants them: from a
/// trainer's shards to the replicas of a rollout engine, from one division of the ranks to another,
/// onto more ranks or fewer. Nothing is gathered on the way: each rank gets what it has slots for.
///
/// The buffers may lie in the same memory, or overlap, each rank's in its own way. Then what arrives
/// where something is still to be read, and copies that wait for each other, are set aside in the
/// scratch, and written as soon as all has been read that they overlap. In one step that can be all
/// that arrives. A plan that is made `in_place`, for buffers that begin at the same address, moves in
/// steps, so that no more than two chunks are set aside where that can be had: at least where chunks
/// of one size change their slots, without new replicas.
///
/// @param from [from().slots, slice_elements] per tensor, in slices of the source; a rank that has
///             nothing gives a buffer without slots
/// @param to   [to().slots, slice_elements] per tensor, in slices of the target. Elements of another
///             type are converted where they are sent from; padding behind a short slice stays
/// @param options its scratch has room for what is set aside, and for what a step converts to send,
///                or only relays; `scratch_required` tells how much that is on this rank
/// @pre every rank calls with an equal plan; the buffers live until the communicator is synchronized
/// @post every slot of the target has the elements of the source, converted; of a source in other
///       memory nothing has changed
/// @cost for each size of tensors one gather by its plan, or one for each of its steps; what a rank
///       has itself it copies, unless it lies there already. What is set aside is copied once more.
///       Allocates lists of the parts. For now and then, not for every iteration
/// @throws argument_error before anything is sent; transport errors: then slots of a source that
///         overlaps the target may have been written to
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void transfer_between(Comm& comm, redistribution const& plan, From&& from, To&& to,
                      gather_options const& options = {}) {
  static_assert(!is_read_only<To>, "to is to be written");
  auto call = detail::between_call{plan,
                                   comm.rank(),
                                   detail::tensor_list{from},
                                   detail::tensor_list{to},
                                   &detail::known_conversion<element_of<From>, element_of<To>>,
                                   options};
  call.check(comm.size());
  submit(comm, std::move(call));
}

/// The bytes of scratch that `transfer_between` takes on a rank, with these buffers: in
/// `gather_options::scratch`, or in `device_scratch` where the communicator's memory is a device's.
/// Buffers that do not overlap need nothing unless types change, or the rank relays to others.
/// @cost as that of the lists that the call makes; nothing is sent
/// @throws argument_error as there
template <tensor_memory From, tensor_memory To>
[[nodiscard]] std::size_t scratch_required(redistribution const& plan, rank_id rank,
                                           From const& from, To const& to) {
  auto const call = detail::between_call{
      plan, rank, detail::tensor_list{from}, detail::tensor_list{to}, nullptr, {}};
  call.check(plan.ranks());
  return call.scratch_bytes();
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/transfer_between_inl.hpp"
#endif
