// SPDX-License-Identifier: Apache-2.0
/// Construction of even_routing.
#pragma once

#include <utility>

#include "fssdp/core/inline.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE even_routing::even_routing(placement where, topology const& given)
    : where_{std::move(where)}, topo_{topology_or_one_node(given, where_.ranks())} {}

}  // namespace fssdp
