// SPDX-License-Identifier: Apache-2.0
/// Algorithm 2 of the Hecate paper: shards that even out the load of what is not replicated.
#pragma once

#include <span>
#include <vector>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/solver/sharding_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Owners for the experts of all layers at once; every rank owns equally many in all, any number of
/// one layer.
///
/// The `overlap` most loaded experts of a layer get replicas anyway, so they take the places that
/// are left. All others go, layer by layer and by load, to the node and the rank that have the
/// least load in that layer. (Paper, Algorithm 2. Ties: layers by the largest load of what is not
/// replicated, then lower id; places by fewer free slots, then lower id.)
/// @cost O(L E (N + D / N) + L E log E) time; a pure function
struct heterogeneous_sharding {
  int overlap = 0;  ///< t: as in sparse_materialization

  /// @param loads [layers] of [experts], any scale
  /// @return [layers] layouts of whole experts
  /// @post rank r owns floor(L E / D) experts, one more if r < (L E) mod D
  /// @throws argument_error unless there is a layer, an expert and a rank, equally many experts in
  ///         all layers, and `overlap` is at least 0.
  [[nodiscard]] std::vector<table_layout> operator()(std::span<expert_loads const> loads,
                                                     topology const& topo) const;
};

static_assert(sharding_solver<heterogeneous_sharding>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/heterogeneous_sharding_inl.hpp"
#endif
