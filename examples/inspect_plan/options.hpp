// SPDX-License-Identifier: Apache-2.0
/// Which plan is looked at, and in which form.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cases/case_kind.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/topology/topology.hpp"

namespace inspect {

/// How the plan is made: by schedule, by make_plan alone, or owners send to all holders.
enum class plan_kind { scheduled, chain, direct };

inline constexpr auto plan_names = std::array<std::string_view, 3>{"scheduled", "chain", "direct"};
[[nodiscard]] constexpr std::string_view name_of(plan_kind which) {
  return plan_names[static_cast<std::size_t>(which)];
}

struct options {
  int ranks = 8;
  int nodes = 2;
  double link_bandwidth = 400e9;  ///< bytes per second of a rank inside its node
  double nic_bandwidth = 50e9;    ///< bytes per second between nodes
  fssdp::network_interface nic_per = fssdp::network_interface::per_rank;
  double link_latency = 5e-6;  ///< seconds
  double nic_latency = 15e-6;  ///< seconds

  cases::case_kind of_case = cases::case_kind::hot;
  int experts = 0;  ///< 0: two for each rank
  std::uint64_t seed = 1;
  std::size_t bytes = std::size_t{4} << 20U;  ///< per expert

  plan_kind plan = plan_kind::scheduled;
  std::size_t piece_bytes = 0;  ///< 0: what schedule finds best
  std::size_t relay_bytes = std::numeric_limits<std::size_t>::max();

  int lines = 24;  ///< of the table of transfers
  bool all = false;
  bool json = false;
  std::filesystem::path svg = {};
};

[[nodiscard]] constexpr int expert_count(options const& of) {
  return of.experts == 0 ? 2 * of.ranks : of.experts;
}

[[nodiscard]] inline fssdp::topology cluster_of(options const& of) {
  return fssdp::topology{{.nodes = of.nodes,
                          .ranks = of.ranks,
                          .ports = {.inside_bytes_per_second = of.link_bandwidth,
                                    .between_bytes_per_second = of.nic_bandwidth},
                          .network = of.nic_per,
                          .cost = {.inside_latency_seconds = of.link_latency,
                                   .between_latency_seconds = of.nic_latency}}};
}

[[nodiscard]] inline fssdp::schedule_options schedule_options_of(options const& of) {
  return {.piece_bytes = of.piece_bytes, .relay_bytes = of.relay_bytes};
}

/// @throws std::invalid_argument that names the option, its value and what was expected
inline void validate(options const& of) {
  auto const require = [](bool holds, std::string const& what) {
    if (!holds) throw std::invalid_argument{what};
  };
  auto const within = [&](char const* name, auto value, decltype(value) least,
                          decltype(value) most) {
    require(value >= least && value <= most, std::string{name} + " " + std::to_string(value) +
                                                 ": expected " + std::to_string(least) + " to " +
                                                 std::to_string(most));
  };
  auto const bandwidth = [&](char const* name, double value) {
    require(value >= fssdp::detail::least_bandwidth && value <= fssdp::detail::most_bandwidth,
            std::string{name} + " " + std::to_string(value) +
                ": expected more than 0, namely 0.001 to 1e18 bytes per second");
  };
  within("--ranks", of.ranks, 1, 4096);
  within("--nodes", of.nodes, 1, of.ranks);
  within("--experts", of.experts, 0, 1 << 20);
  within("--bytes", of.bytes, std::size_t{1}, std::size_t{1} << 36U);
  within("--lines", of.lines, 0, std::numeric_limits<int>::max());
  bandwidth("--link-bandwidth", of.link_bandwidth);
  bandwidth("--nic-bandwidth", of.nic_bandwidth);
  auto const latency = [&](double seconds) {
    require(seconds >= 0 && seconds < 1e6,
            "--latency " + std::to_string(seconds) + ": expected seconds, 0 or more");
  };
  latency(of.link_latency);
  latency(of.nic_latency);
  if (of.svg.empty()) return;
  auto const folder = of.svg.has_parent_path() ? of.svg.parent_path() : ".";
  require(std::filesystem::is_directory(folder),
          "--svg " + of.svg.string() + ": there is no directory " + folder.string());
}

}  // namespace inspect
