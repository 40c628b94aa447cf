// SPDX-License-Identifier: Apache-2.0
/// The dispatch of golden case G5: three experts on two nodes of two ranks.
#pragma once

#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/reversed_layout.hpp"

namespace support {

/// Held A{0,3} B{2} C{0,1,2}, owned by the first of them.
struct golden_dispatch {
  fssdp::topology topo{{.nodes = 2, .ranks = 4}};
  reversed_layout layout{4, {fssdp::rank_id{0}, fssdp::rank_id{2}, fssdp::rank_id{0}}};
  fssdp::placement where{layout};
  fssdp::token_counts counts{4, 3, {4, 3, 2, 5, 1, 3, 3, 2, 4, 2, 6, 5}};

  golden_dispatch() {
    where.add(fssdp::expert_id{0}, fssdp::rank_id{3});
    where.add(fssdp::expert_id{2}, fssdp::rank_id{1});
    where.add(fssdp::expert_id{2}, fssdp::rank_id{2});
  }
};

}  // namespace support
