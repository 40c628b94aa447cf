// SPDX-License-Identifier: Apache-2.0
/// Algorithm 2 of the Hecate paper: shards that balance the load of experts without replicas.
#pragma once

#include <span>
#include <vector>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/solver/sharding_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Chooses the owners of the experts of all layers together. Every rank owns equally many in total,
/// and any number of one layer.
///
/// The `overlap` most loaded experts of a layer will have replicas in any case, so they take the
/// slots that are left at the end. All others are assigned layer by layer and by load, to the node
/// and the rank with the least load in that layer. (Paper, Algorithm 2. Ties: layers with the
/// largest load among experts without replicas first, then lower id; ranks and nodes with fewer
/// free slots first, then lower id.)
/// @cost O(L E (N + D / N) + L E log E) time; a pure function
struct heterogeneous_sharding {
  int overlap = 0;  ///< t: as in sparse_materialization

  /// @param loads [layers] of [experts], any scale
  /// @return [layers] layouts of whole experts
  /// @post rank r owns floor(L E / D) experts, one more if r < (L E) mod D
  /// @throws argument_error unless there are layers, experts and ranks, all layers have equally
  ///         many experts, and `overlap` is at least 0
  [[nodiscard]] std::vector<table_layout> operator()(std::span<expert_loads const> loads,
                                                     topology const& topo) const;
};

static_assert(sharding_solver<heterogeneous_sharding>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/heterogeneous_sharding_inl.hpp"
#endif
