// SPDX-License-Identifier: Apache-2.0
/// How many replicas experts get, and where those go: what several balancers share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/placement/loads.hpp"

namespace sim {

/// One after the other goes to the expert with the most load for each replica, the one that it
/// starts with counted (ties: lower id), until there are `total`.
/// @return [experts]
[[nodiscard]] inline std::vector<int> replica_counts(fssdp::expert_loads const& loads,
                                                     std::size_t total, int most) {
  auto counts = std::vector<int>(loads.size(), 1);
  auto queue = std::priority_queue<std::tuple<double, int>>{};  // load per replica, -id
  auto const per_replica = [&](std::size_t e) { return static_cast<double>(loads[e]) / counts[e]; };
  if (most > 1)
    for (std::size_t e = 0; e < loads.size(); ++e)
      queue.emplace(per_replica(e), -static_cast<int>(e));
  for (auto given = loads.size(); given < total && !queue.empty(); ++given) {
    auto const e = static_cast<std::size_t>(-std::get<1>(queue.top()));
    queue.pop();
    if (++counts[e] < most) queue.emplace(per_replica(e), -static_cast<int>(e));
  }
  return counts;
}

/// Devices with slots, from which the least loaded one is taken.
class slot_queue {
 public:
  slot_queue(std::vector<double> load, std::vector<int> free)
      : load_{std::move(load)}, free_{std::move(free)} {
    for (std::size_t rank = 0; rank < free_.size(); ++rank)
      if (free_[rank] > 0) queue_.emplace(load_[rank], static_cast<int>(rank));
  }

  /// The least loaded device with a slot that `suits`, if there is one, takes the load.
  template <class Suits>
  std::optional<int> take(double load, Suits suits) {
    auto skipped = std::vector<std::tuple<double, int>>{};
    auto found = std::optional<int>{};
    while (!queue_.empty() && !found.has_value()) {
      auto const top = queue_.top();
      queue_.pop();
      if (suits(std::get<1>(top)))
        found = std::get<1>(top);
      else
        skipped.push_back(top);
    }
    if (found.has_value()) {
      auto const rank = static_cast<std::size_t>(*found);
      load_[rank] += load;
      if (--free_[rank] > 0) queue_.emplace(load_[rank], *found);
    }
    for (auto const& one : skipped) queue_.push(one);
    return found;
  }

 private:
  std::vector<double> load_;
  std::vector<int> free_;
  std::priority_queue<std::tuple<double, int>, std::vector<std::tuple<double, int>>, std::greater<>>
      queue_ = {};
};

}  // namespace sim
