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

/// Copies experts from one distribution to another: from a trainer's shards to the replicas of a
/// rollout engine, from one division of the ranks to another, onto more ranks or fewer. Each rank
/// receives only what it has slots for.
///
/// The two buffers of a rank may overlap, or be the same memory. Data that arrives on top of a part
/// of the source that is still needed is staged in the scratch, and copied to its slot later. With
/// a plan of one step, that may be all that arrives. A plan made with `in_place` has several steps,
/// so that at most two chunks are staged at a time if both buffers begin at the same address and
/// chunks of one size only change their slots. It takes longer: each step is a gather.
///
/// @param from [from().slots, slice_elements] per tensor, in slices of the source. A rank that has
///             nothing passes a buffer without slots
/// @param to   [to().slots, slice_elements] per tensor, in slices of the target. Elements of
///             another type are converted by the sender. Padding behind a short slice keeps its
///             contents
/// @param options scratch: for staged chunks, conversions and relayed pieces; `scratch_required`
///                returns its size on this rank
/// @pre every rank calls with an equal plan; the buffers live until the communicator is
///      synchronized
/// @post every slot of the target has the elements of the source, converted. A source that does not
///       overlap the target is unchanged
/// @cost one gather for each size of tensors and each step. Chunks that stay on the rank are
///       copied, unless they are in place already; staged ones are copied once more. Allocates
///       lists of the parts: not meant for every iteration
/// @throws argument_error before anything is sent; transport errors, after which a source that
///         overlaps the target may have been overwritten
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

/// The bytes of scratch that `transfer_between` needs on a rank with these buffers: of
/// `gather_options::scratch`, or of `device_scratch` if the communicator's memory is a device's.
/// 0 if the buffers do not overlap, no types are converted and the rank relays nothing.
/// @cost that of the lists of the call; nothing is sent
/// @throws argument_error as transfer_between
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
