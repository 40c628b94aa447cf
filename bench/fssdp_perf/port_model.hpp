// SPDX-License-Identifier: Apache-2.0
/// Where the program meets the port model: the machine, the plan for it, the world of ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "contestant.hpp"
#include "fssdp/cluster/topology.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "options.hpp"

namespace perf {

namespace detail {
[[noreturn]] inline void not_built_yet(std::string const& option) {
  throw std::invalid_argument{option + ": not built yet"};
}
}  // namespace detail

[[nodiscard]] inline fssdp::topology cluster_of(options const& of) {
  return fssdp::topology{{.nodes = of.nodes,
                          .ranks = of.ranks,
                          .ports = {.inside_bytes_per_second = of.link_bandwidth,
                                    .between_bytes_per_second = of.nic_bandwidth}}};
}

/// The plan that is measured; made of whole chunks, whatever they weigh.
[[nodiscard]] inline fssdp::transfer_plan plan_of(scene const& of, std::size_t /*chunk_bytes*/) {
  return fssdp::make_plan(of.layout, of.where, of.cluster);
}

/// How long one rank takes to make it: the median of some calls.
[[nodiscard]] inline double seconds_to_plan(scene const& of, std::size_t chunk_bytes) {
  using clock = std::chrono::steady_clock;
  auto seconds = std::vector<double>{};
  for (int call = 0; call < 5; ++call) {
    auto const begin = clock::now();
    auto const plan = plan_of(of, chunk_bytes);
    seconds.push_back(std::chrono::duration<double>{clock::now() - begin}.count());
  }
  return median(std::move(seconds));
}

/// What the port model says of a plan.
struct model_times {
  double seconds = 0;
  double bound_seconds = 0;
  double tight_bound_seconds = 0;
  std::string bound;  ///< the resource that binds
};

/// @throws std::invalid_argument: there is no port model yet
[[nodiscard]] inline model_times simulated(fssdp::transfer_plan const&, std::size_t) {
  detail::not_built_yet("--simulate");
}

/// The ranks as threads; as slow as --rate says, if it does.
/// @throws std::invalid_argument if it does: nothing throttles yet
[[nodiscard]] inline fssdp::thread_world world_of(options const& of) {
  if (of.rate > 0) detail::not_built_yet("--rate");
  return fssdp::thread_world{of.ranks};
}

}  // namespace perf
