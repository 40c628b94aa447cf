// SPDX-License-Identifier: Apache-2.0
/// One model on one cluster, as the numbers that costs are computed from.
#pragma once

#include <algorithm>
#include <limits>

#include "cluster.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/topology/topology.hpp"
#include "model.hpp"

namespace sim {

struct setting {
  cluster_kind const* kind = nullptr;
  model_shape const* model = nullptr;
  fssdp::topology topology = {};
  int layers = 0;   ///< of the model; not all of them need be simulated
  int experts = 0;  ///< of a layer
  double tokens_per_device = 0;
  fssdp::layer_rates rates = {};
  double non_moe_seconds = 0;  ///< of an iteration, forward and backward
};

/// @param pairs tokens of a layer over all devices, each as often as it goes to experts
[[nodiscard]] inline setting make_setting(cluster_kind const& kind, model_shape const& model,
                                          int devices, int layers, int experts, double pairs) {
  auto const tokens = pairs / (devices * std::min(model.top_k, experts));
  auto const window = tokens * attention_flops(model) / kind.flops;
  auto const shared = tokens * 2 * model.shared_parameters / kind.flops;
  auto const dense = tokens * (attention_flops(model) + 2 * model.dense_parameters) / kind.flops;
  return {.kind = &kind,
          .model = &model,
          .topology = make_cluster(kind, devices),
          .layers = layers,
          .experts = experts,
          .tokens_per_device = tokens,
          .rates = {.forward_seconds_per_row = 2 * expert_parameters(model) / kind.flops,
                    .token_bytes = 2 * static_cast<std::size_t>(model.d_model),
                    .expert_bytes = expert_bytes(model),
                    .window_seconds = window},
          .non_moe_seconds = 3 * (layers * (window + shared) + model.dense_layers * dense)};
}

/// How many experts a window hides (the paper's t), the filling of the pipeline included: into a
/// node, or into a device if there is only one node.
[[nodiscard]] inline int hidden_experts(setting const& of) {
  return fssdp::hidden_budget(of.rates, of.topology, of.experts, of.experts).experts_in;
}

/// Lets the window hide the gathers of so many experts, the filling of the pipeline included.
inline void hide(setting& of, int experts) {
  auto ports = fssdp::port_loads{of.topology};
  auto const many = of.topology.nodes() > 1;
  std::ranges::fill(many ? ports.into_node : ports.into_rank, experts);
  ports.between_nodes = many ? experts : 0;
  of.rates.window_seconds = fssdp::gather_seconds(ports, of.topology, of.rates.expert_bytes);
}

}  // namespace sim
