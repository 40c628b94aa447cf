// SPDX-License-Identifier: Apache-2.0
/// Moves shards from one layout to another, in place.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/reshard_plan.hpp"

namespace fssdp {

/// Options of reshard.
struct reshard_options {
  scratch_memory* scratch = nullptr;  ///< one for each communicator
  /// Between devices, as in gather_options: plan.scratch_slots() slots of all tensors.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

/// A reshard on one rank, ready to run. It keeps all that it needs but the memory of the shard and
/// the scratch.
class reshard_call {
 public:
  reshard_call(reshard_plan const& plan, tensor_list shard, reshard_options const& options)
      : plan_{plan}, shard_{std::move(shard)}, options_{options} {}

  /// @throws argument_error unless the shard fits the plan
  void check(rank_id rank, int ranks) const;

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }

  void run(communicator_ref const& comm) const;

 private:
  reshard_plan plan_;
  tensor_list shard_;
  reshard_options options_;
};

}  // namespace detail

/// Moves the shard of every rank to the owners that another layout gives it, in place: parameters
/// and optimizer state alike.
///
/// @param shard [slots, slice_elements] per tensor: of one buffer, or of several, as bytes_of
///              returns them; in the slot order of the old layout before, of the new one
///              afterwards. `slots` is at least plan.slots(rank), which is enough for both layouts
/// @pre every rank calls with an equal plan and equal sizes; the memory and the scratch live until
///      the communicator is synchronized. The plan, views and lists of views may be temporaries
/// @post every chunk has the bits that it had at its old owner; unused slots at the end are
///       unspecified. After a transport error the contents of the whole shard are unspecified
/// @cost one exchange per round; each chunk that changes its owner travels once, in one message per
///       tensor; copies within the rank; scratch of plan.scratch_slots() slots; allocates. Meant
///       for once in many iterations, not for each
/// @throws argument_error before anything is sent; transport errors
/// (Paper: re-sharding)
template <communicator Comm, tensor_memory Shard>
requires outlives_the_call<Shard, Comm>
void reshard(Comm& comm, reshard_plan const& plan, Shard&& shard,
             reshard_options const& options = {}) {
  static_assert(!is_read_only<Shard>, "expected a shard that can be written");
  auto call = detail::reshard_call{plan, detail::tensor_list{shard}, options};
  call.check(comm.rank(), comm.size());
  submit(comm, std::move(call));
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/reshard_inl.hpp"
#endif
