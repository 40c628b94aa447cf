// SPDX-License-Identifier: Apache-2.0
/// Where a rank finds its experts.
#pragma once

#include <cstddef>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

FSSDP_INLINE expert_place expert_place_of(transfer_plan const& plan, rank_id rank,
                                          expert_id expert) {
  if (plan.slices() == 1 && plan.owner(expert) == rank) return {true, plan.owner_slot(expert)};
  return {false, transfer_plan::slot_in(plan.remote(rank), expert)};
}

FSSDP_INLINE void check_counts(std::size_t weights, std::size_t replicas) {
  require(weights == replicas, "view_experts: weights have ", weights,
          " tensors per expert, replicas ", replicas, "; expected equal numbers");
}

FSSDP_INLINE void check_view(transfer_plan const& plan, rank_id rank, std::size_t k,
                             slots_and_elements const& weights,
                             slots_and_elements const& replicas) {
  require(weights.slots == plan.owned_count(rank), "view_experts: weights have ", weights.slots,
          " slots on rank ", rank, "; expected ", plan.owned_count(rank),
          ", the chunks that it owns");
  require(replicas.slots == plan.remote(rank).size(), "view_experts: replicas have ",
          replicas.slots, " slots on rank ", rank, "; expected ", plan.remote(rank).size(),
          ", its remote experts");
  require(weights.elements == slice_elements(replicas.elements, plan.slices()),
          "view_experts: tensor ", k, " has ", replicas.elements, " elements in replicas, ",
          weights.elements, " in weights; expected ",
          slice_elements(replicas.elements, plan.slices()), " in weights, an even slice for ",
          plan.slices(), " slices");
}

FSSDP_INLINE void check_view(transfer_plan const& plan, rank_id rank, std::size_t slots) {
  require(slots == plan.materialized(rank).size(), "view_experts: experts have ", slots,
          " slots on rank ", rank, "; expected ", plan.materialized(rank).size(),
          ", the experts that it holds");
}

}  // namespace fssdp::detail
