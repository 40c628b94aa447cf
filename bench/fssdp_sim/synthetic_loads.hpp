// SPDX-License-Identifier: Apache-2.0
/// Loads of a router that learns: skewed, with drift and occasional jumps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "load_trace.hpp"

namespace sim {

/// A process: the n-th expert of a layer has 1 / n^zipf of the first one's tokens, by and large;
/// which one is the n-th is random. From iteration to iteration the logarithms walk at random.
struct synthetic_process {
  int layers = 12;
  int experts = 64;
  std::uint64_t tokens = 1 << 19U;  ///< of a layer and iteration, top-k times
  int iterations = 20;              ///< numbered from 1
  double zipf = 1.1;                ///< of the middle layer; of others up to 25% more or less
  double drift = 0.01;              ///< step of a logarithm's walk
  double jumps = 0.002;             ///< probability that two experts of a layer change places
  double noise = 0.02;              ///< of one iteration alone
  std::uint64_t seed = 1;
};

namespace detail {

/// Numbers that are equal with every standard library.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_{seed} {}
  double uniform() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  std::size_t below(std::size_t count) {
    return std::min(static_cast<std::size_t>(uniform() * static_cast<double>(count)), count - 1);
  }
  double normal() {  // near enough: the sum of 12 has variance 1
    auto sum = -6.0;
    for (int n = 0; n < 12; ++n) sum += uniform();
    return sum;
  }

 private:
  std::mt19937_64 engine_;
};

/// Whole tokens in the proportion of the weights, by the largest remainders (ties: lower id).
inline fssdp::expert_loads whole_tokens(std::vector<double> const& weights, std::uint64_t tokens) {
  auto const sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  auto loads = fssdp::expert_loads(weights.size());
  auto rest = std::vector<std::pair<double, std::size_t>>{};
  auto given = std::uint64_t{0};
  for (std::size_t e = 0; e < weights.size(); ++e) {
    auto const share = weights[e] / sum * static_cast<double>(tokens);
    loads[e] = static_cast<std::uint64_t>(share);
    given += loads[e];
    rest.emplace_back(static_cast<double>(loads[e]) - share, e);
  }
  std::ranges::sort(rest);
  for (std::size_t n = 0; given < tokens; ++given) ++loads[rest[n++ % rest.size()].second];
  return loads;
}

}  // namespace detail

/// The loads of a process: equal for equal parameters, the seed among them.
/// @pre at least one layer, expert and iteration
[[nodiscard]] inline load_trace synthetic_loads(synthetic_process const& of) {
  auto random = detail::dice{of.seed};
  auto const experts = static_cast<std::size_t>(of.experts);
  auto logs = std::vector(static_cast<std::size_t>(of.layers), std::vector<double>(experts));
  for (auto& layer : logs) {
    auto const exponent = of.zipf * (0.75 + 0.5 * random.uniform());
    for (std::size_t e = 0; e < experts; ++e)
      layer[e] = -exponent * std::log(static_cast<double>(e + 1));
    for (auto e = experts; e-- > 1;) std::swap(layer[e], layer[random.below(e + 1)]);
  }
  auto trace = load_trace{};
  for (int iter = 1; iter <= of.iterations; ++iter) {
    auto sample = load_sample{.iter = iter};
    for (auto& layer : logs) {
      if (iter > 1) {
        for (auto& log : layer) log += of.drift * random.normal();
        if (random.uniform() < of.jumps)
          std::swap(layer[random.below(experts)], layer[random.below(experts)]);
      }
      auto weights = std::vector<double>{};
      for (auto const log : layer) weights.push_back(std::exp(log + of.noise * random.normal()));
      sample.layers.push_back(detail::whole_tokens(weights, of.tokens));
    }
    trace.push_back(std::move(sample));
  }
  return trace;
}

}  // namespace sim
