// SPDX-License-Identifier: Apache-2.0
/// How long it takes until computed rows are back: devices with few rows send while others compute.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"

namespace sim {

/// What each device works on, and what of it goes back, in rows.
class return_of_tokens {
 public:
  template <class Routing>
  return_of_tokens(fssdp::token_counts const& counts, Routing const& routing,
                   fssdp::topology const& topo)
      : topo_{topo}, of_(static_cast<std::size_t>(topo.ranks())) {
    for (auto const source : fssdp::first_n<fssdp::rank_id>(counts.ranks()))
      for (auto const expert : fssdp::first_n<fssdp::expert_id>(counts.experts()))
        routing(source, expert, counts(source, expert),
                [&](fssdp::rank_id to, std::uint64_t tokens) {
                  auto& rows = of_[to.index()];
                  rows.computed += tokens;
                  if (source == to) return;
                  (topo_.same_node(source, to) ? rows.inside : rows.between) += tokens;
                });
  }

  /// From when all devices begin to compute until the last row is back: every interface sends the
  /// rows of its devices in the order in which they have computed them.
  [[nodiscard]] double seconds(double seconds_per_row, double row_bytes) const {
    auto last = 0.0;
    auto by_interface = std::vector<std::vector<std::pair<double, double>>>(of_.size());
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo_.ranks())) {
      auto const& rows = of_[rank.index()];
      auto const computed = static_cast<double>(rows.computed) * seconds_per_row;
      auto const inside =
          static_cast<double>(rows.inside) * row_bytes / topo_.port(rank).inside_bytes_per_second;
      last = std::max(last, computed + inside);
      auto const interface = topo_.interface_of(rank);
      by_interface[interface.index()].emplace_back(
          computed, static_cast<double>(rows.between) * row_bytes /
                        topo_.port(interface).between_bytes_per_second);
    }
    for (auto& queue : by_interface) {
      std::ranges::sort(queue);
      auto now = 0.0;
      for (auto const& [ready, sending] : queue)
        if (sending > 0) now = std::max(now, ready) + sending;
      last = std::max(last, now);
    }
    return last;
  }

 private:
  struct rows {
    std::uint64_t computed = 0;
    std::uint64_t inside = 0;   ///< to other devices of the node
    std::uint64_t between = 0;  ///< to other nodes
  };

  fssdp::topology const& topo_;
  std::vector<rows> of_;  // [ranks]
};

}  // namespace sim
