// SPDX-License-Identifier: Apache-2.0
/// A limit on the ports and the memory that a placement uses.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Memory is a hard limit; the limits on ports are those within which gathers can be hidden or pay.
struct materialization_budget {
  int experts_in = 0;   ///< that may enter a node
  int experts_out = 0;  ///< of a node's own experts, that may leave it
  int spare_slots = 0;  ///< m: replicas that a rank has memory for
  friend bool operator==(materialization_budget const&, materialization_budget const&) = default;

  /// Whether a placement with these port loads is within the budget.
  [[nodiscard]] bool allows(port_loads const& ports) const;
};

namespace detail {

/// Marks a budget that was not set: {} is a valid choice, which allows no replicas.
inline constexpr auto no_budget =
    materialization_budget{.experts_in = -1, .experts_out = -1, .spare_slots = -1};

/// @throws argument_error if the budget was not set, or a number is negative
void require_budget(char const* solver, materialization_budget const& budget);

}  // namespace detail

/// Rejects a placement that exceeds a budget, before anything is sent.
/// @throws argument_error that names the limit, the node or rank, and both numbers
void check_within(port_loads const& ports, materialization_budget const& budget);

/// The budget of gathers that are hidden: as many experts of a layer as can enter and leave every
/// node while something else computes, that is within `rates.window_seconds`, including the time to
/// fill the pipeline. On a single node that limits the replicas of each rank. (Paper: the overlap
/// degree t, there without that time.)
/// @param experts the upper limit
/// @param spare_slots replicas that a rank has memory for
[[nodiscard]] materialization_budget hidden_budget(layer_rates const& rates, topology const& topo,
                                                   int experts, int spare_slots);

/// The number of tokens of one node for one expert, in an iteration, above which it pays to gather
/// the expert into the node even if the gather is not hidden: parameters and gradients travel once
/// each, tokens travel there and back, forward and backward.
[[nodiscard]] double break_even_tokens(layer_rates const& rates);

/// The hidden budget, or more: as many experts as have enough tokens to pay (break_even_tokens). It
/// allows all slots: solvers that know the rates decide which replicas are worth their slots.
/// @param loads [experts], tokens of one iteration
[[nodiscard]] materialization_budget paying_budget(std::span<std::uint64_t const> loads,
                                                   layer_rates const& rates, topology const& topo,
                                                   int spare_slots);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/materialization_budget_inl.hpp"
#endif
