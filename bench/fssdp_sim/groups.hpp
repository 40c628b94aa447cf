// SPDX-License-Identifier: Apache-2.0
/// Groups, each of which is a cluster of its own: what crosses between them, and over what.
#pragma once

#include <vector>

#include "between/method.hpp"

namespace sim {

/// What is asked: every method on every wire.
struct group_options {
  int groups = 1;  ///< 1: there is nothing between
  std::vector<between::method> methods = {between::methods.front()};
  int sync_every = 0;              ///< iterations, then parameters cross; 0: gradients do, in each
  std::vector<double> wires = {};  ///< bytes per second; empty: as fast as the cluster's interfaces
};

/// One method on one wire.
struct group_setting {
  int groups = 1;
  between::method method = {};
  int sync_every = 0;
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
      all.push_back({asked.groups, method, asked.sync_every, wire});
  return all;
}

}  // namespace sim
