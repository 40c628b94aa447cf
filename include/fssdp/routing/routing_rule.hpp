// SPDX-License-Identifier: Apache-2.0
/// Routings that are chosen at run time.
#pragma once

#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The rule by which tokens are sent to replicas.
enum class routing_rule {
  even,     ///< evenly to the nearest holders (the paper's): even_routing
  balanced  ///< such that the fullest rank has few: balanced_routing
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
