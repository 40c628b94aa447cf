// SPDX-License-Identifier: Apache-2.0
/// Routings that are chosen when a program runs.
#pragma once

#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Which replica gets which tokens.
enum class routing_rule {
  even,     ///< the paper's: evenly to the nearest. even_routing
  balanced  ///< so that the fullest rank has as few as possible. balanced_routing
};

/// Calls use(routing) with the routing of a rule, and returns what that returns.
/// @throws argument_error as the routing
template <class Use>
decltype(auto) with_routing(routing_rule rule, token_counts const& counts, placement const& where,
                            topology const& topo, Use use) {
  if (rule == routing_rule::balanced) return use(balanced_routing{counts, where, topo});
  return use(even_routing{where, topo});
}

}  // namespace fssdp
