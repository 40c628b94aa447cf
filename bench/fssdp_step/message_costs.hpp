// SPDX-License-Identifier: Apache-2.0
/// What messages between all devices cost beside their bytes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace step {

/// If every device sends one message to every other one: how many each sends inside its node, and
/// how many of those between nodes pass through the port of one device.
struct messages_to_all {
  double inside;
  double between;

  messages_to_all(fssdp::topology const& topo, fssdp::rank_id from) {
    auto const near = static_cast<double>(topo.ranks_on(topo.node(from)).size());
    auto const sharing = topo.network() == fssdp::network_interface::per_node ? near : 1.0;
    inside = near - 1;
    between = sharing * (static_cast<double>(topo.ranks()) - near);
  }
};

/// What a dispatch or a combine takes beside the time for its bytes: the latency, and the time for
/// which messages occupy the port of `at`.
[[nodiscard]] inline double message_seconds(fssdp::topology const& topo, fssdp::rank_id at) {
  auto const messages = messages_to_all{topo, at};
  auto const& cost = topo.cost();
  return messages.between > 0 ? cost.between_latency_seconds + messages.between * cost.port_seconds
                              : cost.inside_latency_seconds + messages.inside * cost.port_seconds;
}

/// Until a device has the counts of all others, `bytes` from each.
[[nodiscard]] inline double counts_seconds(fssdp::topology const& topo, fssdp::rank_id at,
                                           std::size_t bytes) {
  auto const messages = messages_to_all{topo, at};
  auto const each = static_cast<double>(bytes);
  auto const& port = topo.port(at);
  auto const inside = messages.inside * each / port.inside_bytes_per_second;
  auto const between = messages.between * each / port.between_bytes_per_second;
  return messages.between > 0 ? topo.cost().between_latency_seconds + std::max(inside, between)
                              : topo.cost().inside_latency_seconds + inside;
}

}  // namespace step
