// SPDX-License-Identifier: Apache-2.0
/// The largest flow through a small network.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

namespace support {

/// Nodes 0, 1, ... and a capacity for every pair: augments along shortest paths.
class flow_network {
 public:
  explicit flow_network(int nodes)
      : nodes_{static_cast<std::size_t>(nodes)}, left_(nodes_ * nodes_) {}

  void add(int from, int to, double capacity) { left(from, to) += capacity; }

  /// The flow from one node to another; what is left of the capacities stays.
  double run(int source, int sink) {
    auto total = 0.0;
    for (auto way = shortest(source, sink); !way.empty(); way = shortest(source, sink)) {
      auto most = left(way[0], way[1]);
      for (std::size_t i = 0; i + 1 < way.size(); ++i)
        most = std::min(most, left(way[i], way[i + 1]));
      for (std::size_t i = 0; i + 1 < way.size(); ++i) {
        left(way[i], way[i + 1]) -= most;
        left(way[i + 1], way[i]) += most;
      }
      total += most;
    }
    return total;
  }

 private:
  static constexpr double nothing = 1e-12;

  [[nodiscard]] double& left(int from, int to) {
    return left_[static_cast<std::size_t>(from) * nodes_ + static_cast<std::size_t>(to)];
  }
  /// The nodes on a shortest way with capacity left; none if there is no way.
  [[nodiscard]] std::vector<int> shortest(int source, int sink) {
    auto before = std::vector<int>(nodes_, -1);
    before[static_cast<std::size_t>(source)] = source;
    auto reached = std::deque{source};
    while (!reached.empty()) {
      auto const at = reached.front();
      reached.pop_front();
      for (int next = 0; next < static_cast<int>(nodes_); ++next)
        if (before[static_cast<std::size_t>(next)] < 0 && left(at, next) > nothing) {
          before[static_cast<std::size_t>(next)] = at;
          reached.push_back(next);
        }
    }
    if (before[static_cast<std::size_t>(sink)] < 0) return {};
    auto way = std::vector{sink};
    while (way.back() != source) way.push_back(before[static_cast<std::size_t>(way.back())]);
    std::ranges::reverse(way);
    return way;
  }

  std::size_t nodes_;
  std::vector<double> left_;
};

}  // namespace support
