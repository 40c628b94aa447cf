// SPDX-License-Identifier: Apache-2.0
/// Measures an iteration while it goes on.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/runtime/iteration_metrics.hpp"
#include "fssdp/runtime/timed_work.hpp"

namespace fssdp::detail {

class iteration_meter {
 public:
  iteration_metrics metrics;

  /// Calls work(), which submits to a lane or waits for it, and counts the time as exposed: the
  /// caller does nothing else meanwhile.
  /// @throws what has gone wrong on the lane, if its stream has failed
  template <communicator Comm, class Work>
  void expose(Comm& lane, Work work) {
    auto const begin = clock::now();
    try {
      work();
    } catch (poisoned_stream const&) {
      synchronize(lane);  // throws the cause
      throw;
    }
    metrics.exposed_seconds += std::chrono::duration<double>{clock::now() - begin}.count();
  }
  /// Waits for work on a lane, and counts the time that it took there, too.
  template <communicator Comm>
  void wait(Comm& lane, timed_work& work, double& seconds) {
    expose(lane, [&] {
      if (!work.wait()) throw poisoned_stream{"materializer: the stream of its lane has failed"};
    });
    seconds += work.seconds();
  }
  /// Counts what a plan moves once.
  void move(transfer_plan const& plan, std::size_t chunk_bytes) {
    auto const moved = traffic(plan, plan.cluster());
    auto const bytes = chunk_bytes / static_cast<std::size_t>(plan.pieces());
    metrics.bytes_inside_nodes += static_cast<std::size_t>(moved.inside_nodes) * bytes;
    metrics.bytes_between_nodes += static_cast<std::size_t>(moved.between_nodes) * bytes;
  }
  /// Takes in how full the ranks were in a layer.
  void balance(std::span<std::uint64_t const> device_loads) {
    balances_.push_back(max_over_mean(device_loads));
  }
  /// What has come together; from here on everything counts anew.
  [[nodiscard]] iteration_metrics close() {
    if (!balances_.empty()) {
      auto sum = 0.0;
      for (auto const balance : balances_) sum += balance;
      metrics.load_max_over_mean = sum / static_cast<double>(balances_.size());
      std::ranges::sort(balances_);
      metrics.load_p95 = balances_[(balances_.size() * 95 + 99) / 100 - 1];
      balances_.clear();
    }
    return std::exchange(metrics, {});
  }

 private:
  using clock = std::chrono::steady_clock;

  std::vector<double> balances_;  // of the layers
};

}  // namespace fssdp::detail
