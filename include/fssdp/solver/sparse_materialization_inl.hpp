// SPDX-License-Identifier: Apache-2.0
/// Algorithm 1.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// The free slots of each rank and node.
class free_slots {
 public:
  free_slots(fssdp::topology const& topo, int m)
      : topo_{topo}, on_rank_(static_cast<std::size_t>(topo.ranks()), m) {
    for (auto const node : first_n<node_id>(topo.nodes()))
      on_node_.push_back(static_cast<int>(topo.ranks_on(node).size()) * m);
  }

  /// Puts a replica on the best rank that has a free slot and lacks the expert, if there is one.
  bool place(placement& where, expert_id expert) {
    auto best = std::optional<rank_id>{};
    auto best_key = std::pair{false, 0};  // whether the node lacks the expert; its free slots
    for (auto const node : first_n<node_id>(topo_.nodes())) {
      auto const free = on_node_[node.index()];
      if (free == 0 || (best_key.first && free <= best_key.second)) continue;  // never better
      auto const lacks = std::ranges::none_of(
          topo_.ranks_on(node), [&](rank_id rank) { return where.holds(rank, expert); });
      auto const key = std::pair{lacks, free};
      if (best.has_value() && key <= best_key) continue;
      auto const rank = freest(where, node, expert);
      if (!rank.has_value()) continue;
      best = rank;
      best_key = key;
    }
    if (!best.has_value()) return false;
    where.add(expert, *best);
    --on_rank_[best->index()];
    --on_node_[topo_.node(*best).index()];
    return true;
  }

 private:
  /// The rank of a node with the most free slots among those that lack the expert.
  [[nodiscard]] std::optional<rank_id> freest(placement const& where, node_id node,
                                              expert_id expert) const {
    auto best = std::optional<rank_id>{};
    for (auto const rank : topo_.ranks_on(node)) {
      auto const free = on_rank_[rank.index()];
      if (free == 0 || where.holds(rank, expert)) continue;
      if (!best.has_value() || free > on_rank_[best->index()]) best = rank;
    }
    return best;
  }

  fssdp::topology const& topo_;
  std::vector<int> on_rank_;
  std::vector<int> on_node_;
};

/// Divides the slots of all ranks among the most loaded experts, by load.
inline void share_slots(placement& where, std::span<std::uint64_t const> loads,
                        std::span<expert_id const> top, fssdp::topology const& topo, int m) {
  __extension__ typedef unsigned __int128 wide;  // loads times slots never overflow
  auto free_on = free_slots{topo, m};
  auto const slots = static_cast<wide>(topo.ranks()) * static_cast<wide>(m);
  auto sum = wide{0};
  for (auto const expert : top) sum += loads[expert.index()];
  auto const most = static_cast<wide>(topo.ranks() - 1);
  for (auto const expert : top) {
    auto const share =
        sum == 0 ? slots / top.size() : slots * static_cast<wide>(loads[expert.index()]) / sum;
    auto const replicas = std::max(wide{1}, std::min(share, most));
    for (auto n = wide{0}; n < replicas; ++n)
      if (!free_on.place(where, expert)) break;
  }
}

}  // namespace detail

FSSDP_INLINE void sparse_materialization::check(std::span<std::uint64_t const> loads,
                                                int experts) const {
  detail::require_loads("sparse_materialization", loads, experts);
  detail::require(overlap >= 0, "sparse_materialization: overlap is ", overlap,
                  "; expected 0 or more");
  detail::require(spare_slots >= 0, "sparse_materialization: spare_slots is ", spare_slots,
                  "; expected 0 or more");
}

FSSDP_INLINE void sparse_materialization::add_replicas(placement& where,
                                                       std::span<std::uint64_t const> loads) const {
  auto const topo = topology_or_one_node(topology, where.ranks());
  auto const t = std::min(overlap, where.experts());
  auto const m = std::min(spare_slots, t);
  auto const order = by_load(loads);
  auto const top = std::span{order}.first(static_cast<std::size_t>(t));
  if (t <= m) {
    for (auto const expert : top)
      for (auto const rank : first_n<rank_id>(where.ranks())) where.add(expert, rank);
  } else if (where.ranks() > 1 && m > 0) {
    detail::share_slots(where, loads, top, topo, m);
  }
}

}  // namespace fssdp
