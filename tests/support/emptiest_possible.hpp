// SPDX-License-Identifier: Apache-2.0
/// How full the fullest rank must be, for any routing of tokens.
#pragma once

#include <cstdint>
#include <numeric>

#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "support/max_flow.hpp"

namespace support {

/// The least tokens per rank with which all flow from their experts to holders, by bisection.
[[nodiscard]] inline std::uint64_t emptiest_possible(fssdp::placement const& where,
                                                     fssdp::expert_loads const& loads) {
  auto const all = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
  auto const source = where.experts() + where.ranks();
  auto const suffice = [&](std::uint64_t tokens) {
    auto network = flow_network{source + 2};
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(where.experts())) {
      auto const load = static_cast<double>(loads[expert.index()]);
      network.add(source, expert.value(), load);
      for (auto const rank : where.holders(expert))
        network.add(expert.value(), where.experts() + rank.value(), load);
    }
    for (int rank = 0; rank < where.ranks(); ++rank)
      network.add(where.experts() + rank, source + 1, static_cast<double>(tokens));
    return network.run(source, source + 1) > static_cast<double>(all) - 0.5;
  };
  auto least = std::uint64_t{0};
  auto enough = all;
  while (least < enough) {
    auto const between = least + (enough - least) / 2;
    if (suffice(between))
      enough = between;
    else
      least = between + 1;
  }
  return least;
}

}  // namespace support
