// SPDX-License-Identifier: Apache-2.0
/// The cost of a placement and a routing for one layer, by a model of the topology.
#pragma once

#include <cstddef>

#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The properties of a layer that the model needs.
struct layer_rates {
  double forward_seconds_per_row = 0;  ///< of an expert, forward; backward takes twice as long
  std::size_t token_bytes = 0;         ///< of one token on its way to an expert, or back
  std::size_t expert_bytes = 0;        ///< of the parameters of an expert; gradients have as many
  double window_seconds = 0;  ///< of computation to hide a gather; twice that for a reduction
};

/// How often experts are gathered in an iteration: once, or again for the backward pass.
enum class gathers { once, twice };

/// The time of the busiest port for what a placement moves, including the time to fill the
/// pipeline: for each doubling of the nodes that have a piece, `piece_bytes` through the port of
/// rank 0 plus the latency. Without that time it is never above lower_bound, which has more terms.
/// @throws argument_error if ports and topology differ in nodes or ranks
[[nodiscard]] double gather_seconds(port_loads const& ports, topology const& given,
                                    std::size_t expert_bytes, std::size_t piece_bytes = 256U << 10);

/// The time that windows do not hide, if a gather takes `gather` seconds and a reduction as long.
[[nodiscard]] double exposed_seconds(double gather, layer_rates const& rates,
                                     gathers often = gathers::once);

/// The time of an iteration of one layer. Ports are full duplex; only gathers and reductions
/// overlap with other work.
///   compute   3 x the fullest rank: forward, and twice that for backward
///   tokens    4 x the busiest port: there and back, forward and backward
///   exposed   the part of gathers and of the reduction that windows do not hide
struct layer_cost {
  double compute_seconds = 0;
  double token_seconds = 0;
  double gather_seconds = 0;  ///< of one gather; a reduction takes as long
  double exposed_seconds = 0;

  layer_cost() = default;
  /// @param given with ranks
  /// @throws argument_error if tokens, ports and `given` differ in nodes or ranks
  layer_cost(token_traffic const& tokens, port_loads const& ports, layer_rates const& rates,
             topology const& given, gathers often = gathers::once);

  [[nodiscard]] double seconds() const { return compute_seconds + token_seconds + exposed_seconds; }

 private:
  /// The seconds of the busiest port per byte of a token.
  static double busiest_port(token_traffic const& tokens, topology const& given);
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/cost/layer_cost_inl.hpp"
#endif
