// SPDX-License-Identifier: Apache-2.0
/// Groups, each a cluster of its own: what they exchange, and over which links.
#pragma once

#include <string_view>
#include <vector>

#include "between/method.hpp"

namespace sim {

/// What becomes of what groups have learned by themselves: the average of their parameters,
/// DiLoCo's step along it, or CO2's, a round late.
enum class outer { average, diloco, co2 };

/// As command lines have it.
[[nodiscard]] constexpr std::string_view name_of(outer of) {
  return of == outer::average ? "average" : of == outer::diloco ? "diloco" : "co2";
}

/// When something crosses, and when it has to be there.
struct group_rhythm {
  int sync_every = 0;  ///< iterations between exchanges of parameters; 0: of gradients, in each
  sim::outer outer = sim::outer::average;
  int fragments = 1;   ///< of the layers, which cross in turn, each once in sync_every
  int sync_delay = 0;  ///< iterations that groups train on while a fragment crosses

  /// Iterations behind which an exchange of parameters is hidden.
  [[nodiscard]] constexpr int hiding_iterations() const {
    return outer == sim::outer::co2 ? sync_every : sync_delay;
  }
};

/// What is asked: every method on every wire.
struct group_options {
  int groups = 1;  ///< 1: there is nothing between
  std::vector<between::method> methods = {between::methods.front()};
  group_rhythm rhythm = {};
  std::vector<double> wires = {};  ///< bytes per second; empty: as fast as the cluster's interfaces
};

/// One method on one wire.
struct group_setting {
  int groups = 1;
  between::method method = {};
  group_rhythm rhythm = {};
  /// Of a network interface to other groups, one direction: every device has one, or every node, as
  /// the cluster says.
  double bytes_per_second = 0;
};

/// @param usual the speed of a wire that was not asked for
[[nodiscard]] inline std::vector<group_setting> settings_of(group_options const& asked,
                                                            double usual) {
  auto all = std::vector<group_setting>{};
  for (auto const wire : asked.wires.empty() ? std::vector{usual} : asked.wires)
    for (auto const& method : asked.methods)
      all.push_back({asked.groups, method, asked.rhythm, wire});
  return all;
}

}  // namespace sim
