// SPDX-License-Identifier: Apache-2.0
/// Advice: whether replicas pay, with which budget, and why.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The budget for cheapest_materialization, and the expected gain.
struct materialization_advice {
  materialization_budget budget = {};  ///< of ports and memory; {}: replicas do not pay
  double seconds_without = 0;          ///< an iteration of the layer without replicas
  double seconds_with = 0;             ///< with that budget
  double max_over_mean_without = 1;    ///< rows of the fullest rank over the mean
  double max_over_mean_with = 1;
  std::string why = {};  ///< one sentence, in these numbers

  [[nodiscard]] bool pays() const { return budget != materialization_budget{}; }
  /// The speedup of an iteration of the layer.
  [[nodiscard]] double gain() const {
    return seconds_with > 0 ? seconds_without / seconds_with : 1;
  }
};

/// The input of the advice.
struct advised_layer {
  std::span<std::uint64_t const> loads;  ///< [experts], tokens of one iteration over all ranks
  layer_rates rates = {};
  fssdp::topology topology = {};  ///< if empty: all ranks are on one node
  int most_slots = 4;             ///< replicas that a rank has memory for
};

/// Tries 0, 1, 2, 4, ... and `most_slots` slots, each with a paying_budget, and chooses the
/// smallest number that is within 1 % of the best.
/// @post the budget has at most `most_slots` slots; the gain is at least 1
/// @cost that of cheapest_materialization for each number of slots; a pure function
/// @throws argument_error if loads do not fit the layout, rates have no cost per token, or
///         most_slots is negative
template <shard_layout Layout>
[[nodiscard]] materialization_advice advise_materialization(advised_layer const& of,
                                                            Layout const& layout);

namespace detail {

[[nodiscard]] materialization_advice advise(advised_layer const& of, table_layout const& layout);

}  // namespace detail

template <shard_layout Layout>
materialization_advice advise_materialization(advised_layer const& of, Layout const& layout) {
  return detail::advise(of, detail::owner_table(layout));
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/advise_materialization_inl.hpp"
#endif
