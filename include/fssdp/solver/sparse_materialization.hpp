// SPDX-License-Identifier: Apache-2.0
/// Algorithm 1 of the Hecate paper: replicas for the most loaded experts.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Gives replicas to the `overlap` most loaded experts.
///
/// If the slots suffice (overlap <= spare_slots) every rank gets all of them. Otherwise the slots
/// of all ranks are shared out by load, each of these experts gets at least one replica, and a
/// replica goes to the node that lacks the expert and has the most free slots. (Paper, Algorithm 1;
/// ties: more load, then lower id. An expert uses no slot with its owner; where experts are sliced,
/// that one must be put together, too, in memory of its own.)
/// @cost O(E log E + replicas * (N + D / N)) time; a pure function
struct sparse_materialization {
  int overlap = 0;                ///< t: how many experts can be gathered while other work hides it
  int spare_slots = 0;            ///< m: how many replicas a rank has memory for
  fssdp::topology topology = {};  ///< where the ranks sit; without ranks: all on one node

  /// @param loads [experts], any scale
  /// @post every owner holds its experts, and no rank holds more than `spare_slots` others
  /// @throws argument_error on negative options, or another number of loads or ranks.
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    check(loads, layout.experts());
    auto where = placement{layout};
    add_replicas(where, loads);
    return where;
  }

 private:
  void check(std::span<std::uint64_t const> loads, int experts) const;
  void add_replicas(placement& where, std::span<std::uint64_t const> loads) const;
};

static_assert(placement_solver<sparse_materialization>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/sparse_materialization_inl.hpp"
#endif
