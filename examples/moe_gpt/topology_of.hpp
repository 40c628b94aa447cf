// SPDX-License-Identifier: Apache-2.0
/// The ranks of a run on their nodes.
#pragma once

#include "fssdp/topology/topology.hpp"
#include "options.hpp"

namespace moe_gpt {

/// The ranks on their nodes; with --rate, on links that are as slow.
[[nodiscard]] inline fssdp::topology topology_of(options const& chosen) {
  auto ports = fssdp::port_bandwidth{};
  if (chosen.rate > 0)
    ports = {.inside_bytes_per_second = 8 * chosen.rate, .between_bytes_per_second = chosen.rate};
  return fssdp::topology{{.nodes = chosen.nodes, .ranks = chosen.ranks, .ports = ports}};
}

}  // namespace moe_gpt
