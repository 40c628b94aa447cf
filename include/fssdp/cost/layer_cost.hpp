// SPDX-License-Identifier: Apache-2.0
/// What a placement and a routing cost an iteration of one layer, by a model of the topology.
#pragma once

#include <cstddef>

#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// What the model needs to know of a layer.
struct layer_rates {
  double seconds_per_token = 0;  ///< of an expert, forward; backward takes twice as long
  std::size_t token_bytes = 0;   ///< one token on its way to an expert, or back
  std::size_t expert_bytes = 0;  ///< the parameters of an expert; as many of gradients
  double window_seconds = 0;     ///< computation that hides a gather; backward there is twice that
};

/// How often experts are gathered in an iteration: once, or for the backward pass again.
enum class gathers { once, twice };

/// How long the busiest port takes for what a placement moves, with the filling of its pipeline: a
/// piece of `piece_bytes` through the port of rank 0, and the latency, for each doubling of the
/// nodes that have it. Without the filling it is never above lower_bound, which looks at more
/// resources.
/// @throws argument_error if ports and topology differ in nodes or ranks
[[nodiscard]] double gather_seconds(port_loads const& ports, topology const& given,
                                    std::size_t expert_bytes, std::size_t piece_bytes = 256U << 10);

/// What the windows do not hide, if a gather takes so long and a reduction as well.
[[nodiscard]] double exposed_seconds(double gather, layer_rates const& rates,
                                     gathers often = gathers::once);

/// An iteration of one layer. Ports are full duplex; nothing but gathers and reductions overlaps.
///   compute   3 x the fullest device: forward, and twice that backward
///   tokens    4 x the busiest port: there and back, forward and backward
///   exposed   what the windows do not hide of gathers and of the reduction
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
  /// In seconds for every byte of a token.
  static double busiest_port(token_traffic const& tokens, topology const& given);
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/cost/layer_cost_inl.hpp"
#endif
