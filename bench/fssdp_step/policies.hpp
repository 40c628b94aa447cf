// SPDX-License-Identifier: Apache-2.0
/// The policies whose iterations are measured: options of the materializer, and their cost in
/// the model of fssdp_sim.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/eplb_materialization.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp_sim/layer_figures.hpp"
#include "fssdp_sim/policies/fastermoe.hpp"
#include "fssdp_sim/policies/fsdp.hpp"
#include "fssdp_sim/policies/hecate.hpp"
#include "fssdp_sim/policies/ours.hpp"
#include "fssdp_sim/policy.hpp"

namespace step {

/// What placements are made from: the mean of the last iterations, the same only now and then, or
/// nothing, where the router's counts are waited for.
enum class expectation { window, interval, none };

struct policy {
  std::string_view name;
  std::string_view about;  ///< one line
  /// Who holds what, by the predicted loads of the question.
  /// @param before who has held what; null if that is not known
  fssdp::placement (*places)(sim::layer_question const&, fssdp::placement const* before);
  sim::traits costs = {};
  sim::sharding shards = sim::sharding::blocks;
  bool holds_all = false;   ///< whatever the slots
  bool slices = false;      ///< every expert is cut over all devices
  bool calibrates = false;  ///< replicas are added when the router has counted
  expectation expects = expectation::window;
  fssdp::routing_rule tokens = fssdp::routing_rule::even;
  double load_tolerance = 0;  ///< as of materializer_options
};

namespace detail {

[[nodiscard]] inline fssdp::placement places_of_ep(sim::layer_question const& of,
                                                   fssdp::placement const*) {
  return fssdp::placement{*of.owners};
}
[[nodiscard]] inline fssdp::placement places_of_fsdp(sim::layer_question const& of,
                                                     fssdp::placement const*) {
  return fssdp::everywhere{}(*of.owners);
}
/// EPLB's replicas for all devices alike, or node by node: whichever the model says is cheaper.
[[nodiscard]] inline fssdp::placement places_of_eplb(sim::layer_question const& of,
                                                     fssdp::placement const*) {
  auto answers = sim::layer_answers{};
  for (auto const& groups : {fssdp::topology{}, *of.topology})
    answers.push_back(
        {*of.owners, fssdp::eplb_materialization{.spare_slots = of.slots, .topology = groups}(
                         *of.predicted, *of.owners)});
  return sim::cheapest(of, std::move(answers), {}).where;
}
[[nodiscard]] inline fssdp::placement places_of_fsep(sim::layer_question const& of,
                                                     fssdp::placement const*) {
  return fssdp::eplb_materialization{.spare_slots = of.slots}(*of.predicted, *of.owners);
}
/// Shadows by the loads that are given; none where nothing is expected yet.
[[nodiscard]] inline fssdp::placement places_of_fastermoe(sim::layer_question const& of,
                                                          fssdp::placement const*) {
  if (std::ranges::all_of(*of.predicted, [](auto load) { return load == 0; }))
    return fssdp::placement{*of.owners};
  return sim::answer_of(sim::fastermoe, of).where;
}
[[nodiscard]] inline fssdp::placement places_of_hecate(sim::layer_question const& of,
                                                       fssdp::placement const*) {
  return sim::answers_of_hecate(of).front().where;
}
[[nodiscard]] inline fssdp::placement places_by(fssdp::cheapest_materialization const& solve,
                                                sim::layer_question const& of,
                                                fssdp::placement const* before) {
  return before != nullptr ? solve(*of.predicted, *of.owners, *before)
                           : solve(*of.predicted, *of.owners);
}
[[nodiscard]] inline fssdp::placement places_of_ours(sim::layer_question const& of,
                                                     fssdp::placement const* before) {
  return places_by(sim::solver_of_ours(of), of, before);
}
[[nodiscard]] inline fssdp::placement places_of_ours_hidden(sim::layer_question const& of,
                                                            fssdp::placement const* before) {
  auto solve = sim::solver_of_ours(of);
  solve.budget = fssdp::hidden_budget(of.rates, *of.topology, of.owners->experts(), of.slots);
  return places_by(solve, of, before);
}

}  // namespace detail

/// In the order in which they are shown.
inline constexpr auto policies = std::array{
    policy{.name = "ep", .about = "no replicas", .places = detail::places_of_ep},
    policy{.name = "fsdp",
           .about = "every expert on every device, gathered for forward and for backward",
           .places = detail::places_of_fsdp,
           .costs = sim::fsdp.costs,
           .holds_all = true},
    policy{
        .name = "fsep",
        .about =
            "experts in slices over all devices (LAER-MoE); each device gathers those of which it "
            "owns the first slice, and replicas by EPLB's greedy packing",
        .places = detail::places_of_fsep,
        .costs = {.moves = sim::movement::sliced},
        .slices = true},
    policy{.name = "eplb",
           .about =
               "DeepSeek's balancer, called every --interval iterations; parameters of replicas "
               "are gathered and gradients summed in every iteration",
           .places = detail::places_of_eplb,
           .expects = expectation::interval},
    policy{.name = "fastermoe",
           .about = "the most loaded experts on all devices, where that pays by the real counts",
           .places = detail::places_of_fastermoe,
           .calibrates = true,
           .expects = expectation::none},
    policy{.name = "hecate",
           .about = "Algorithms 1 and 2 of the paper",
           .places = detail::places_of_hecate,
           .shards = sim::sharding::by_load},
    policy{.name = "hecate-rm",
           .about = "as hecate; replicas are gathered again for the backward pass",
           .places = detail::places_of_hecate,
           .costs = sim::hecate_rm.costs,
           .shards = sim::sharding::by_load},
    policy{.name = "hecate-calibrated",
           .about = "as hecate; replicas are added once the router has chosen, where that pays",
           .places = detail::places_of_hecate,
           .shards = sim::sharding::by_load,
           .calibrates = true},
    policy{.name = "ours",
           .about = "cheapest_materialization, which improves the previous placement; Algorithm 2; "
                    "balanced or even routing",
           .places = detail::places_of_ours,
           .shards = sim::sharding::by_load,
           .tokens = fssdp::routing_rule::balanced,
           .load_tolerance = 0.015},
    policy{.name = "ours-hidden",
           .about = "as ours, with no more replicas than can be gathered while devices compute",
           .places = detail::places_of_ours_hidden,
           .shards = sim::sharding::by_load,
           .tokens = fssdp::routing_rule::balanced,
           .load_tolerance = 0.015}};

}  // namespace step
