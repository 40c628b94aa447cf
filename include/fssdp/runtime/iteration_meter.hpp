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

  /// Calls work() and counts its time as exposed: the caller does nothing else meanwhile.
  template <class Work>
  void expose(Work work) {
    auto const begin = clock::now();
    work();
    metrics.exposed_seconds += std::chrono::duration<double>{clock::now() - begin}.count();
  }
  /// Waits for work on a lane and counts the time, and that which it took there.
  template <communicator Comm>
  void wait(Comm& lane, timed_work& work, double& seconds) {
    expose([&] {
      if (work.wait()) return;
      synchronize(lane);  // throws what went wrong
      throw poisoned_stream{"materializer: the stream of its lane has failed"};
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
