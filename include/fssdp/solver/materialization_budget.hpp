// SPDX-License-Identifier: Apache-2.0
/// What ports and memory allow a placement.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Memory is a hard limit; ports are one as far as gathers are to be hidden.
struct materialization_budget {
  int experts_in = 0;   ///< that may enter a node
  int experts_out = 0;  ///< of those owned on a node, that may leave it
  int spare_slots = 0;  ///< m: replicas that a rank has memory for
  friend bool operator==(materialization_budget const&, materialization_budget const&) = default;

  /// Whether a placement with these loads is within it.
  [[nodiscard]] bool allows(port_loads const& ports) const;
};

namespace detail {

/// Stands for a budget that nobody has chosen: one that allows nothing is a choice, too.
inline constexpr auto no_budget =
    materialization_budget{.experts_in = -1, .experts_out = -1, .spare_slots = -1};

/// @throws argument_error that says what has to be given, or names what is negative
void require_budget(char const* solver, materialization_budget const& budget);

}  // namespace detail

/// Refuses a placement beyond a budget, before anything is sent.
/// @throws argument_error that names the budget, the node or rank, and both numbers
void check_within(port_loads const& ports, materialization_budget const& budget);

/// As many experts as enter and leave every node while the window lasts, the filling of the
/// pipeline included. (Paper: the overlap degree t, there without it.)
/// @param experts no budget is larger
[[nodiscard]] materialization_budget hidden_budget(layer_rates const& rates, topology const& topo,
                                                   int experts, int spare_slots);

/// If a node has more tokens than that for an expert, in one iteration, it pays to bring the expert
/// to them even if nothing hides it: the expert comes and its gradient goes, or tokens go there and
/// back, forward and backward.
[[nodiscard]] double break_even_tokens(layer_rates const& rates);

/// The hidden budget, or as many experts as pay beyond it for the tokens that then stay on a node.
/// All slots: what a replica is worth because it shares work, solvers that know rates find out.
/// @param loads [experts], tokens of one iteration
[[nodiscard]] materialization_budget paying_budget(std::span<std::uint64_t const> loads,
                                                   layer_rates const& rates, topology const& topo,
                                                   int spare_slots);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/materialization_budget_inl.hpp"
#endif
