// SPDX-License-Identifier: Apache-2.0
/// The figures of a policy's answer for a layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "expert_traffic.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "interface_bytes.hpp"
#include "listed_even_routing.hpp"
#include "policy.hpp"
#include "return_of_tokens.hpp"
#include "slot_routing.hpp"
#include "uniform_routing.hpp"

namespace sim {

/// Of the busiest port and the fullest device, seconds.
struct expert_times {
  double one_way = 0;   ///< of a dispatch; of a combine, if nobody computes meanwhile
  double forward = 0;   ///< from when all devices have the rows of their experts until all are back
  double backward = 0;  ///< the same in the backward pass
};

struct layer_figures {
  fssdp::layer_cost cost = {};
  expert_times experts = {};
  double late_gather_seconds = 0;       ///< the part of cost.gather_seconds that nothing hides
  double reduction_seconds = 0;         ///< of gradients to their owners
  double exposed_backward_seconds = 0;  ///< the part of cost.exposed_seconds in the backward pass
  double max_over_mean = 1;             ///< of the devices' tokens
  double bytes = 0;                     ///< that all devices send in an iteration
  double interface_bytes = 0;           ///< that the busiest network interface takes in
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
      return use(fssdp::balanced_routing{*question.counts, answer.where, *question.topology});
    case routing_rule::even:
      break;
  }
  return use(listed_even_routing{answer.where, *question.topology});
}

namespace detail {

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

/// What the window of the backward pass does not hide: a reduction, and what is gathered there.
inline double exposed_backward_seconds(double gather, double reduction, double window,
                                       traits const& of) {
  auto const backward = 2 * window;
  if (of.moves == movement::exposed) return reduction;
  if (of.moves == movement::synced) return positive(gather + reduction - backward);
  auto const again = of.often == fssdp::gathers::twice ? gather : 0.0;
  return positive(again + reduction - backward);
}

/// What neither window hides of a gather and a reduction.
inline double exposed_seconds(double gather, double reduction, double window, traits const& of) {
  auto const backward = exposed_backward_seconds(gather, reduction, window, of);
  if (of.moves == movement::exposed) return gather + backward;
  if (of.moves == movement::synced) return backward;
  return positive(gather - window) + backward;
}

/// Whatever goes to the experts is there before any of them computes; of what comes back, devices
/// with few rows send theirs while others still compute.
inline expert_times times_of(fssdp::layer_cost const& cost, return_of_tokens const& back,
                             fssdp::layer_rates const& rates) {
  auto const bytes = static_cast<double>(rates.token_bytes);
  auto const one_way = cost.token_seconds / 4;
  auto const computing = cost.compute_seconds / 3;
  auto const until_back = [&](double times) {
    return std::min(back.seconds(times * rates.forward_seconds_per_row, bytes),
                    times * computing + one_way);
  };
  return {.one_way = one_way, .forward = until_back(1), .backward = until_back(2)};
}

/// The replicas that are there before the router counts, owners included.
inline fssdp::placement early_replicas(layer_answer const& answer) {
  auto early = fssdp::placement{answer.owners};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(answer.where.experts()))
    for (auto const rank : answer.where.holders(expert))
      if (!early.holds(rank, expert) && !answer.late->holds(rank, expert)) early.add(expert, rank);
  return early;
}

}  // namespace detail

/// The cost of an iteration of one layer (fssdp::layer_cost), the balance, and what is sent. Where
/// balance alone is judged, links are free.
[[nodiscard]] inline layer_figures figures_of(layer_question const& question,
                                              layer_answer const& answer, traits const& of) {
  auto const& topo = *question.topology;
  auto const& rates = question.rates;
  auto const [tokens, back] = with_routing(answer, question, [&](auto const& routing) {
    return std::pair{fssdp::token_traffic{*question.counts, routing, topo},
                     return_of_tokens{*question.counts, routing, topo}};
  });
  auto const experts = traffic_of(answer.where, answer, question, of.moves);
  auto figures = layer_figures{.cost = {tokens, fssdp::port_loads{topo}, rates, topo},
                               .max_over_mean = fssdp::max_over_mean(tokens.on_rank)};
  auto& cost = figures.cost;
  auto const& times = figures.experts = detail::times_of(cost, back, rates);
  cost.token_seconds =  // as far as nobody computes meanwhile
      2 * times.one_way + times.forward + times.backward - cost.compute_seconds;
  auto const seconds = [&](fssdp::placement const& where) {
    return traffic_of(where, answer, question, of.moves).seconds;
  };
  auto const early =
      answer.late.has_value() ? seconds(detail::early_replicas(answer)) : experts.seconds;
  auto const late = answer.late.has_value() ? seconds(*answer.late) : 0.0;
  cost.gather_seconds = early + late;
  figures.late_gather_seconds = late;
  cost.exposed_seconds =
      late + detail::exposed_seconds(early, experts.seconds, rates.window_seconds, of);
  figures.reduction_seconds = experts.seconds;
  figures.exposed_backward_seconds =
      detail::exposed_backward_seconds(early, experts.seconds, rates.window_seconds, of);
  if (question.goal == objective::balance) {
    cost.token_seconds = cost.gather_seconds = cost.exposed_seconds = 0;
    figures.experts = {};
    figures.late_gather_seconds = 0;
    figures.reduction_seconds = figures.exposed_backward_seconds = 0;
  }

  auto const sum = [](std::vector<std::uint64_t> const& of_places) {
    return static_cast<double>(
        std::accumulate(of_places.begin(), of_places.end(), std::uint64_t{0}));
  };
  auto const passes = of.often == fssdp::gathers::twice ? 3.0 : 2.0;
  figures.bytes =
      4 * (sum(tokens.into_rank) + sum(tokens.into_node)) * static_cast<double>(rates.token_bytes) +
      passes * detail::deliveries(answer, of.moves) * static_cast<double>(rates.expert_bytes);
  figures.interface_bytes = interface_bytes(tokens, experts, topo, rates, of.often);
  return figures;
}

/// By which a policy chooses between answers: less is better.
[[nodiscard]] inline double price(layer_figures const& of, objective goal) {
  return goal == objective::time ? of.cost.seconds() : of.max_over_mean;
}

/// The cheapest answer by the real counts; of equal ones the first.
/// @pre there is one
[[nodiscard]] inline layer_answer cheapest(layer_question const& question, layer_answers answers,
                                           traits const& of) {
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

/// What a policy does.
[[nodiscard]] inline layer_answer answer_of(policy const& which, layer_question const& question) {
  return cheapest(question, which.answers(question), which.costs);
}

}  // namespace sim
