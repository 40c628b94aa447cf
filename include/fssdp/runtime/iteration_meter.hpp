// SPDX-License-Identifier: Apache-2.0
/// Measures an iteration while it goes on.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/wire_bytes.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/runtime/iteration_metrics.hpp"
#include "fssdp/runtime/timed_work.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_output.hpp"

namespace fssdp::detail {

/// Calls work(), which submits to a lane or waits for it.
/// @throws what has gone wrong there, if its stream has failed
template <communicator Comm, class Work>
void on_sound_lane(Comm& lane, Work work) {
  try {
    work();
  } catch (poisoned_stream const&) {
    synchronize(lane);  // throws the cause
    throw;
  }
}

class iteration_meter {
 public:
  explicit iteration_meter(trace_output const& trace) : trace_{trace} {}

  iteration_metrics metrics;

  /// Calls work(), which submits to a lane or waits for it, and counts the time as exposed: the
  /// caller does nothing else meanwhile.
  /// @throws what has gone wrong on the lane, if its stream has failed
  template <communicator Comm, class Work>
  void expose(Comm& lane, Work work) {
    auto const begin = trace_clock::now();
    on_sound_lane(lane, [&] {
      auto const range = trace_range{&trace_, compute_lane, "wait"};
      work();
    });
    metrics.exposed_seconds += std::chrono::duration<double>{trace_clock::now() - begin}.count();
  }
  /// Waits for something on a lane.
  template <communicator Comm>
  void wait(Comm& lane, stream_event& event) {
    wait_for(lane, [&] { return event.wait(); });
  }
  /// Counts the time that work took there, too.
  template <communicator Comm>
  void wait(Comm& lane, timed_work& work, double& seconds) {
    wait_for(lane, [&] { return work.wait(lane); });
    seconds += work.seconds();
  }
  /// Waits for what a caller beside the lane has enqueued, and for what is on the lane.
  template <communicator Comm>
  void settle(Comm& lane) const noexcept {
    if constexpr (side_lane<Comm>) try {
        submit(lane, [](auto&) {});
        synchronize(lane);
      } catch (std::exception const&) {  // the lane has told, or will
      }
  }
  void count_gather(wire_bytes const& moved) {
    ++metrics.gathers;
    metrics.gathered_bytes += moved.total();
    count(moved);
  }
  void count_reduction(wire_bytes const& moved) {
    metrics.reduced_bytes += moved.total();
    count(moved);
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
  template <communicator Comm, class Wait>
  void wait_for(Comm& lane, Wait wait) {
    expose(lane, [&] {
      if (!wait()) throw poisoned_stream{"materializer: the stream of its lane has failed"};
    });
  }
  void count(wire_bytes const& moved) {
    metrics.bytes_inside_nodes += moved.inside_nodes;
    metrics.bytes_between_nodes += moved.between_nodes;
  }

  trace_output trace_;
  std::vector<double> balances_;  // of the layers
};

}  // namespace fssdp::detail
