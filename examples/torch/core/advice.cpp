// SPDX-License-Identifier: Apache-2.0
#include "advice.hpp"  // of fssdp_sim, as all headers of namespace sim

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <numeric>
#include <optional>
#include <string>

#include "costs.hpp"
#include "module.hpp"

namespace python {
namespace {

constexpr auto objectives =
    std::array{std::pair{std::string_view{"time"}, sim::objective::time},
               std::pair{std::string_view{"balance"}, sim::objective::balance}};

/// [iterations, layers, experts] as a trace of iterations 0, 1, ...
sim::load_trace read_trace(array_like const& from) {
  auto const numbers = read_whole_numbers(from, "loads", 3);
  auto const& shape = numbers.shape;
  fssdp::detail::require(!numbers.values.empty(), "loads of ", shape[0], " iterations, ", shape[1],
                         " layers and ", shape[2], " experts; expected 1 or more of each");
  auto trace = sim::load_trace{};
  auto at = numbers.values.begin();
  for (std::size_t iteration = 0; iteration < shape[0]; ++iteration) {
    auto& sample = trace.emplace_back();
    sample.iter = static_cast<std::int64_t>(iteration);
    for (std::size_t layer = 0; layer < shape[1];
         ++layer, at += static_cast<std::ptrdiff_t>(shape[2]))
      sample.layers.emplace_back(at, at + static_cast<std::ptrdiff_t>(shape[2]));
  }
  return trace;
}

/// Slots, seconds, max/mean of the devices' loads of each layer and iteration, bytes of memory.
nb::tuple as_tuple(sim::policy_result const& of) {
  return nb::make_tuple(of.slots, of.seconds(), as_array(std::vector<double>{of.max_over_mean}),
                        of.memory_bytes);
}

/// The results of advice: of EP, of each number of slots, which of those is chosen, and the loads of
/// experts over the mean of their layers.
nb::tuple advised(array_like const& loads, fssdp::topology const& topology, nb::object const& rates,
                  double non_moe_seconds, std::optional<int> layers,
                  std::optional<std::int64_t> stale, std::string const& objective) {
  auto const trace = read_trace(loads);
  auto const experts = static_cast<int>(sim::expert_count(trace));
  auto const simulated = sim::layer_count(trace);
  auto const model = sim::model_shape{};
  auto const kind = sim::cluster_kind{};
  auto const where = sim::setting{.kind = &kind,
                                  .model = &model,
                                  .topology = topology,
                                  .layers = layers.value_or(static_cast<int>(simulated)),
                                  .experts = experts,
                                  .rates = rates_of(rates),
                                  .non_moe_seconds = non_moe_seconds};
  fssdp::detail::require(where.layers >= static_cast<int>(simulated), "layers is ", where.layers,
                         "; expected at least those that loads are given of, ", simulated);
  auto scenario = sim::scenario{.where = &where,
                                .loads = &trace,
                                .layer_ids = std::vector<std::size_t>(simulated),
                                .samples = std::vector<std::size_t>(trace.size()),
                                .goal = named("objective", objective, objectives),
                                .predicts = {.stale = stale}};
  std::iota(scenario.layer_ids.begin(), scenario.layer_ids.end(), std::size_t{0});
  std::iota(scenario.samples.begin(), scenario.samples.end(), std::size_t{0});
  scenario.overlap = scenario.goal == sim::objective::time ? sim::hidden_experts(where) : experts;
  auto const found = [&] {
    auto const released = nb::gil_scoped_release{};
    return sim::advise(scenario, [](sim::policy const& which, sim::scenario const& of) {
      return sim::simulate(which, of);
    });
  }();
  auto by_slots = nb::list{};
  for (auto const& one : found.by_slots) by_slots.append(as_tuple(one));
  return nb::make_tuple(as_tuple(found.ep), by_slots, found.chosen,
                        as_array(std::vector<double>{found.expert_loads}));
}

}  // namespace

void add_advice(nb::module_& to) {
  to.def("advise", advised, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
         nb::arg().none(), nb::arg());
}

}  // namespace python
