// SPDX-License-Identifier: Apache-2.0
/// The paper's routing rule once more, one token after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "fssdp/placement/placement.hpp"
#include "fssdp/topology/topology.hpp"

namespace support {

/// The receiver of every one of `tokens` tokens that a rank has for an expert.
[[nodiscard]] inline std::vector<fssdp::rank_id> naive_receivers(fssdp::placement const& where,
                                                                 fssdp::topology const& topo,
                                                                 fssdp::rank_id source,
                                                                 fssdp::expert_id expert,
                                                                 int tokens) {
  auto here = std::vector<fssdp::rank_id>{};
  auto near = here;
  auto all = here;
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(where.ranks())) {
    if (!where.holds(rank, expert)) continue;
    all.push_back(rank);
    if (topo.node(rank) == topo.node(source)) near.push_back(rank);
    if (rank == source) here.push_back(rank);
  }
  auto const& receivers = !here.empty() ? here : !near.empty() ? near : all;
  auto const k = static_cast<int>(receivers.size());
  auto result = std::vector<fssdp::rank_id>{};
  for (int i = 0; i < k; ++i) {
    auto const turn = ((i - source.value()) % k + k) % k;
    auto const share = tokens / k + (turn < tokens % k ? 1 : 0);
    result.insert(result.end(), static_cast<std::size_t>(share),
                  receivers[static_cast<std::size_t>(i)]);
  }
  return result;
}

}  // namespace support
