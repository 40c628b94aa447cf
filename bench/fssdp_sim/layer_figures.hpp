// SPDX-License-Identifier: Apache-2.0
/// What a policy's answer comes to.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/layer_cost.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "listed_even_routing.hpp"
#include "policy.hpp"
#include "slot_routing.hpp"
#include "uniform_routing.hpp"

namespace sim {

struct layer_figures {
  fssdp::layer_cost cost = {};
  double max_over_mean = 1;  ///< of the devices' tokens
  double bytes = 0;          ///< that all devices send in an iteration
};

/// Calls use(routing) with the routing of an answer.
template <class Use>
decltype(auto) with_routing(layer_answer const& answer, layer_question const& question, Use use) {
  switch (answer.routing) {
    case routing_rule::uniform:
      return use(uniform_routing{answer.where});
    case routing_rule::slots:
      return use(slot_routing{answer.slots, answer.where});
    case routing_rule::balanced:
      return use(fssdp::balanced_routing{*question.counts, answer.where, *question.cluster});
    case routing_rule::even:
      break;
  }
  return use(listed_even_routing{answer.where, *question.cluster});
}

namespace detail {

/// How long it takes when everybody that holds an expert brings it together from slices, one on
/// every device: as fssdp::gather_seconds, of fractions of experts.
inline double sliced_gather_seconds(fssdp::placement const& where, fssdp::topology const& cluster,
                                    std::size_t expert_bytes) {
  auto const nodes = static_cast<std::size_t>(cluster.nodes());
  auto held = std::vector<double>(static_cast<std::size_t>(cluster.ranks()));  // [ranks]
  auto into = std::vector<double>(nodes);                                      // [nodes]: experts
  auto hosts = std::vector<int>(nodes);
  auto leaving = std::vector<double>(nodes);  // [nodes]: experts that others hold
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(where.experts())) {
    std::ranges::fill(hosts, 0);
    for (auto const rank : where.holders(expert)) {
      ++held[rank.index()];
      hosts[cluster.node(rank).index()] = 1;
    }
    auto const count = std::ranges::count(hosts, 1);
    for (std::size_t node = 0; node < nodes; ++node) {
      into[node] += hosts[node];
      leaving[node] += count > hosts[node] ? 1 : 0;
    }
  }
  auto const bytes = static_cast<double>(expert_bytes);
  auto const devices = static_cast<double>(cluster.ranks());
  auto seconds = 0.0;
  for (auto const node : fssdp::first_n<fssdp::node_id>(cluster.nodes())) {
    auto const share = static_cast<double>(cluster.ranks_on(node).size()) / devices;
    auto const network = fssdp::node_bandwidth(cluster, node);
    auto const most = std::max(into[node.index()] * (1 - share), leaving[node.index()] * share);
    seconds = std::max(seconds, most * bytes / network);
    for (auto const rank : cluster.ranks_on(node)) {
      auto const& port = cluster.port(rank);
      auto const interface = cluster.port(cluster.interface_of(rank)).between_bytes_per_second;
      seconds = std::max(
          seconds, held[rank.index()] * (1 - 1 / devices) * bytes /
                       (port.inside_bytes_per_second + (cluster.nodes() > 1 ? interface : 0.0)));
    }
  }
  return seconds;
}

/// Copies of experts that come to a device from elsewhere.
inline double deliveries(layer_answer const& answer, movement moves) {
  auto const devices = static_cast<double>(answer.where.ranks());
  auto sum = 0.0;
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(answer.where.experts())) {
    auto const holders = static_cast<double>(answer.where.holders(expert).size());
    sum += moves == movement::sliced ? holders * (1 - 1 / devices) : holders - 1;
  }
  return sum;
}

inline double positive(double value) { return std::max(0.0, value); }

/// What neither window hides of gathers and reductions.
inline double exposed_seconds(double gather, double window, traits const& of) {
  auto const forward = window;
  auto const backward = 2 * window;
  switch (of.moves) {
    case movement::exposed:
      return 2 * gather;
    case movement::synced:
      return positive(2 * gather - backward);
    case movement::gathered:
    case movement::sliced:
      break;
  }
  auto const again = of.often == fssdp::gathers::twice ? 2.0 : 1.0;
  return positive(gather - forward) + positive(again * gather - backward);
}

}  // namespace detail

/// The cost of an iteration of one layer (fssdp::layer_cost), the balance, and what is sent. Where
/// balance alone is judged, links are free.
[[nodiscard]] inline layer_figures figures_of(layer_question const& question,
                                              layer_answer const& answer, traits const& of) {
  auto const& cluster = *question.cluster;
  auto const& rates = question.rates;
  auto const tokens = with_routing(answer, question, [&](auto const& routing) {
    return fssdp::token_traffic{*question.counts, routing, cluster};
  });
  auto const ports = fssdp::port_loads{answer.where, answer.owners, cluster};
  auto figures = layer_figures{.cost = {tokens, ports, rates, cluster, of.often},
                               .max_over_mean = fssdp::max_over_mean(tokens.on_rank)};
  auto& cost = figures.cost;
  if (of.moves == movement::sliced)
    cost.gather_seconds = detail::sliced_gather_seconds(answer.where, cluster, rates.expert_bytes);
  cost.exposed_seconds = detail::exposed_seconds(cost.gather_seconds, rates.window_seconds, of);
  if (question.goal == objective::balance)
    cost.token_seconds = cost.gather_seconds = cost.exposed_seconds = 0;

  auto const sum = [](std::vector<std::uint64_t> const& of_places) {
    return static_cast<double>(
        std::accumulate(of_places.begin(), of_places.end(), std::uint64_t{0}));
  };
  auto const passes = of.often == fssdp::gathers::twice ? 3.0 : 2.0;
  figures.bytes =
      4 * (sum(tokens.into_rank) + sum(tokens.into_node)) * static_cast<double>(rates.token_bytes) +
      passes * detail::deliveries(answer, of.moves) * static_cast<double>(rates.expert_bytes);
  return figures;
}

/// By which a policy chooses between answers: less is better.
[[nodiscard]] inline double price(layer_figures const& of, objective goal) {
  return goal == objective::time ? of.cost.seconds() : of.max_over_mean;
}

/// The cheapest answer by the real counts; of equal ones the first.
/// @pre there is one
[[nodiscard]] inline layer_answer cheapest(layer_question const& question,
                                           std::vector<layer_answer> answers, traits const& of) {
  if (answers.size() == 1) return std::move(answers.front());
  auto best = std::size_t{0};
  auto best_price = 0.0;
  for (std::size_t n = 0; n < answers.size(); ++n) {
    auto const now = price(figures_of(question, answers[n], of), question.goal);
    if (n > 0 && now >= best_price) continue;
    best = n;
    best_price = now;
  }
  return std::move(answers[best]);
}

}  // namespace sim
