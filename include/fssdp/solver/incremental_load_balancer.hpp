// SPDX-License-Identifier: Apache-2.0
/// The next expert map of an inference engine, with few changes to the current one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Balances a map of slots to experts with as few changes as the wanted balance allows: every
/// changed slot is an expert that has to be sent.
///
/// The load of a rank is the sum over its slots of load / slots of the expert. While the fullest
/// rank is above `balance` times the mean, it makes the change that lowers the fullest rank most
/// per changed slot: two slots of different ranks are exchanged, or a slot of an expert with
/// several slots is given to an expert of the fullest rank. If that ends above the wanted balance,
/// and `expert_load_balancer` has a better balance within the same number of changes, its map is
/// used: its ranks are renamed, and its slots reordered, such that most experts stay where they
/// are.
///
/// (EPLB computes every map from scratch; vLLM and SGLang do so, too, and send what differs.)
/// @cost O(C S (S + K R)) for C changes, S slots on a rank, K = 16 ranks; a pure function
struct incremental_load_balancer {
  double balance = 1.02;  ///< fullest rank over mean that is good enough
  int most_changes = std::numeric_limits<int>::max();  ///< the largest number of changed slots
  int groups = 1;                                      ///< as in expert_load_balancer
  fssdp::topology topology = {};                       ///< as there; if empty: all on one node

  /// @param before the current map
  /// @param loads [experts], any scale
  /// @post at most most_changes slots differ from `before`; each expert has a slot
  /// @throws argument_error if loads or ranks are not as many as in the map, `balance` is below 1,
  ///         or `most_changes` negative
  [[nodiscard]] physical_experts operator()(physical_experts const& before,
                                            std::span<std::uint64_t const> loads) const;
};

/// The number of slots that hold different experts in two maps of the same shape.
/// @throws argument_error if the shapes differ
[[nodiscard]] int changed_slots(physical_experts const& before, physical_experts const& after);

/// The load of the fullest rank over the mean: 1 is perfect; 1 if all loads are zero.
/// @throws argument_error if there are not as many loads as experts
[[nodiscard]] double balance_of(physical_experts const& map, std::span<std::uint64_t const> loads);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/incremental_load_balancer_inl.hpp"
#endif
