// SPDX-License-Identifier: Apache-2.0
/// From options to what is simulated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "read_loads.hpp"
#include "setting.hpp"
#include "simulate.hpp"
#include "synthetic_loads.hpp"

namespace sim {

/// A scenario and what it points to.
struct prepared {
  setting where;
  load_trace loads;           ///< of the layers that are simulated
  load_trace all_loads = {};  ///< of all layers, if they are to be written
  scenario of = {};
};

namespace detail {

/// The samples of the iterations that were asked for; all of them if none was.
[[nodiscard]] inline std::vector<std::size_t> chosen_samples(
    load_trace const& trace, std::vector<std::int64_t> const& iters) {
  auto chosen = std::vector<std::size_t>{};
  if (iters.empty())
    for (std::size_t n = 0; n < trace.size(); ++n) chosen.push_back(n);
  for (auto const iter : iters) {
    auto const at = std::ranges::lower_bound(trace, iter, {}, &load_sample::iter);
    if (at == trace.end() || at->iter != iter) {
      auto known = std::string{};
      for (std::size_t n = 0; n < trace.size() && n < 5; ++n)
        known += (n > 0 ? ", " : "") + std::to_string(trace[n].iter);
      if (trace.size() > 5) known += " ... " + std::to_string(trace.back().iter);
      throw std::invalid_argument{"--iters " + std::to_string(iter) +
                                  ": there are no loads of this iteration; expected some of " +
                                  known};
    }
    chosen.push_back(static_cast<std::size_t>(at - trace.begin()));
  }
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// @throws std::invalid_argument if no token is routed in any of the iterations
inline void require_tokens(load_trace const& trace, std::vector<std::size_t> const& samples) {
  for (auto const n : samples)
    for (auto const& layer : trace[n].layers)
      if (std::ranges::any_of(layer, [](std::uint64_t load) { return load != 0; })) return;
  throw std::invalid_argument{"--iters " + std::to_string(trace[samples.front()].iter) +
                              ": all loads are zero; expected an iteration that routes tokens"};
}

/// How many layers and iterations are simulated, so that a policy takes seconds.
struct extent {
  std::size_t layers;
  std::size_t samples;
};
[[nodiscard]] inline extent affordable(int devices, int experts, std::size_t layers,
                                       std::size_t samples, bool may_drop_samples) {
  constexpr auto most = std::size_t{8'000'000};  // routed pairs of a device and an expert
  constexpr auto few_layers = std::size_t{2};
  auto const pairs = static_cast<std::size_t>(devices) * static_cast<std::size_t>(experts);
  auto const fitting = most / (pairs * samples);
  auto kept = extent{std::min(layers, std::max(few_layers, fitting)), samples};
  if (may_drop_samples)
    kept.samples = std::min(samples, std::max<std::size_t>(2, most / (pairs * kept.layers)));
  return kept;
}

[[nodiscard]] inline load_trace process_of(options const& asked, model_shape const& model,
                                           int devices) {
  auto experts = asked.experts > 0 ? asked.experts : model.experts;
  if (asked.experts == 0 && devices <= 16 && model.experts_at_16_devices > 0)
    experts = model.experts_at_16_devices;
  auto const tokens = static_cast<std::uint64_t>(asked.tokens) *
                      static_cast<std::uint64_t>(devices * std::min(model.top_k, experts));
  return synthetic_loads({.layers = asked.layers > 0 ? asked.layers : model.layers,
                          .experts = experts,
                          .tokens = tokens,
                          .iterations = asked.iterations,
                          .zipf = asked.zipf,
                          .drift = asked.drift,
                          .jumps = asked.jumps,
                          .noise = asked.noise,
                          .seed = asked.seed});
}

}  // namespace detail

/// One cluster and model. `trace` is what --trace names, if anything.
/// @throws std::invalid_argument on iterations that are not there, or a cluster that cannot be
[[nodiscard]] inline prepared prepare(options const& asked, std::optional<load_trace> const& trace,
                                      cluster_kind const& kind, int devices,
                                      model_shape const& model) {
  auto loads = trace.has_value() ? *trace : detail::process_of(asked, model, devices);
  auto samples = detail::chosen_samples(loads, asked.iters);
  detail::require_tokens(loads, samples);
  auto const layers = layer_count(loads);
  auto const experts = static_cast<int>(expert_count(loads));
  auto const kept =
      detail::affordable(devices, experts, layers, samples.size(), asked.iters.empty());
  auto few = std::vector<std::size_t>{};  // the last sample of each of equally long parts
  for (std::size_t n = 1; n <= kept.samples; ++n)
    few.push_back(samples[n * samples.size() / kept.samples - 1]);
  auto made = prepared{.where = make_setting(kind, model, devices, static_cast<int>(layers),
                                             experts, mean_tokens(loads)),
                       .loads = {}};
  for (std::size_t n = 0; n < kept.layers; ++n)
    made.of.layer_ids.push_back(n * layers / kept.layers);
  if (!asked.write_trace.empty()) made.all_loads = loads;
  made.loads = thin_layers(std::move(loads), kept.layers);
  made.of.samples = std::move(few);
  made.of.slots = std::min(asked.slots, experts);
  made.of.goal = asked.goal;
  made.of.timed = asked.timed;
  made.of.overlap =
      asked.overlap.value_or(asked.goal == objective::time ? hidden_experts(made.where) : experts);
  if (asked.overlap.has_value()) hide(made.where, std::min(*asked.overlap, experts));
  made.of.predicts.stale = asked.stale;
  if (asked.goal == objective::balance && !asked.stale.has_value()) made.of.predicts.stale = 0;
  return made;
}

/// All clusters and models, in the order in which they were asked for. A deque, as scenarios point
/// into it.
[[nodiscard]] inline std::deque<prepared> prepare_all(options const& asked) {
  auto const trace = asked.trace.empty() ? std::nullopt : std::optional{read_loads(asked.trace)};
  auto all = std::deque<prepared>{};
  for (auto const* kind : asked.clusters) {
    auto const devices = asked.devices.empty() ? std::vector{kind->default_devices} : asked.devices;
    for (auto const count : devices)
      for (auto const* model : asked.models) {
        all.push_back(prepare(asked, trace, *kind, count, *model));
        all.back().of.where = &all.back().where;
        all.back().of.loads = &all.back().loads;
      }
  }
  return all;
}

}  // namespace sim
