// SPDX-License-Identifier: Apache-2.0
/// SparseReduceScatter: partial gradients back to the owners, summed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/reduction_pass.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Sums every expert's partial gradients over all that hold it, at its owner. The transpose of
/// sparse_all_gather: the same plan, read backwards.
///
/// A rank that passes an expert on in a gather sums here what comes back before it sends the sum
/// on. Sums are formed in accumulator_t (float for bf16), in ascending rank order of those that
/// contribute, the summing rank's own partial at its place among them; scaled and rounded once, at
/// the owner. A direct plan thus sums all holders in rank order.
///
/// @param from [held, elements] per tensor: partial gradients, ascending experts
/// @param to   [owned, elements] per tensor: gradients, in the layout's slot order
/// @pre every rank calls with an equal plan and equal sizes; `from` and `to` do not overlap; plan,
///      buffers, views of them and scratch live until the communicator is synchronized
/// @post `to` has scale * (sum over the holders), the own partial counted once; equal plans give
///       equal bits, whatever the timing
/// @cost a message per tensor of each of the rank's transfers in the plan, in the type of `from`, or in
///       accumulator_t where it is already a sum; one exchange per round; scratch for the sums that
///       a rank passes on, and, unless peers' memory can be borrowed, for what it receives in one
///       round; one allocation if no scratch is given
/// @throws argument_error before anything is sent; transport errors
/// (Paper: spRS, SparseReduceScatter)
template <communicator Comm, expert_memory From, expert_memory To>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From const& from, To&& to,
                           reduce_options const& options = {}) {
  constexpr auto verb = "sparse_reduce_scatter";
  auto const partials = tensors_of(from);
  auto const gradients = tensors_of(to);
  auto const rank = comm.rank();
  detail::check_world(verb, comm, plan);
  detail::check_tensors(verb, partials, gradients);
  detail::check_slots(verb, "from", partials, plan.held(rank).size(),
                      "experts that the rank holds");
  detail::check_slots(verb, "to", gradients, plan.owned_count(rank), "experts that the rank owns");

  submit(comm, [&plan, partials, gradients, options](auto& lane) {
    auto own_scratch = scratch_memory{};
    auto pass = detail::reduction_pass{plan, lane.rank(), partials, gradients, options};
    pass.run(lane, options.scratch != nullptr ? *options.scratch : own_scratch);
  });
}

}  // namespace fssdp
