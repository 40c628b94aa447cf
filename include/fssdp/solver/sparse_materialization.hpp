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
/// If the slots are enough (overlap <= spare_slots), every rank gets all of them. Otherwise the
/// slots of all ranks are divided among these experts by load, at least one replica for each; a
/// replica goes to the node that lacks the expert and has the most free slots. (Paper, Algorithm 1.
/// Ties: more load first, then lower id. An expert takes no slot on its owner. Where experts are
/// sliced, owners must gather the whole expert as well, in additional memory.)
/// @cost O(E log E + replicas * (N + D / N)) time; a pure function
struct sparse_materialization {
  int overlap = 0;                ///< t: how many experts can be gathered while other work hides it
  int spare_slots = 0;            ///< m: how many replicas a rank has memory for
  fssdp::topology topology = {};  ///< the nodes of the ranks; if empty: all on one node

  /// @param loads [experts], any scale
  /// @post every owner holds its experts, and no rank holds more than `spare_slots` replicas
  /// @throws argument_error if an option is negative, or loads or ranks are not as many as in the
  ///         layout
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
