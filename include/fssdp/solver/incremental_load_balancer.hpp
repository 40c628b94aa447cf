// SPDX-License-Identifier: Apache-2.0
/// The next map of an inference engine's experts, from the one that is in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Changes as few slots of a map as the wanted balance allows. Every slot that changes is an expert
/// that has to be sent.
///
/// A rank's load is the sum over its slots of load / slots of the expert. As long as the fullest rank
/// is above `balance` times the mean, the change is made that lowers it the most for each slot that
/// it takes: two slots of different ranks change places, or a slot of an expert that has several
/// becomes one of an expert on the fullest rank. Where that ends above the wanted balance and
/// `expert_load_balancer` has a fuller answer within the same number of changes, its map is taken,
/// each of its ranks given to the one that has most of its experts already, every expert that is
/// there already in its slot.
///
/// (EPLB makes every map from nothing. vLLM and SGLang do the same, and move what differs.)
/// @cost O(C S (S + K R)) for C changes, S slots on a rank, K = 16 ranks; a pure function
struct incremental_load_balancer {
  double balance = 1.02;  ///< the fullest rank over the mean that is good enough
  int most_changes = std::numeric_limits<int>::max();  ///< slots
  int groups = 1;                                      ///< as of expert_load_balancer
  fssdp::topology topology = {};                       ///< likewise; without ranks: one node

  /// @param before the map in place
  /// @param loads [experts], any scale
  /// @post no more than most_changes slots differ from `before`; each expert has a slot
  /// @throws argument_error if there is another number of loads or ranks, a balance below 1, or a
  ///         negative number of changes
  [[nodiscard]] physical_experts operator()(physical_experts const& before,
                                            std::span<std::uint64_t const> loads) const;
};

/// How many slots of two maps of one shape hold different experts.
/// @throws argument_error if the shapes differ
[[nodiscard]] int changed_slots(physical_experts const& before, physical_experts const& after);

/// The load of the fullest rank over the mean: 1 is perfect. 1 without loads.
/// @throws argument_error if there is another number of loads
[[nodiscard]] double balance_of(physical_experts const& map, std::span<std::uint64_t const> loads);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/incremental_load_balancer_inl.hpp"
#endif
