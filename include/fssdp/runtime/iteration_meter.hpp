// SPDX-License-Identifier: Apache-2.0
/// Measures an iteration while it runs.
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
#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/runtime/iteration_metrics.hpp"
#include "fssdp/runtime/slot_pool.hpp"
#include "fssdp/runtime/timed_work.hpp"
#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_output.hpp"

namespace fssdp::detail {

class iteration_meter {
 public:
  /// @pre the queue outlives it
  iteration_meter(work_queue const& queue, trace_output const& trace)
      : queue_{queue}, trace_{trace} {}

  iteration_metrics metrics;

  /// Calls work(), which submits to the queue or waits for it, and counts the time as exposed, as
  /// the caller does nothing else meanwhile.
  /// @throws the cause, if the stream has failed
  template <class Work>
  void expose(Work work) {
    auto const begin = trace_clock::now();
    on_sound_stream(queue_, [&] {
      auto const range = trace_range{&trace_, compute_track, "wait"};
      work();
    });
    metrics.exposed_seconds += std::chrono::duration<double>{trace_clock::now() - begin}.count();
  }
  /// Waits for something on the stream.
  void wait(stream_event& event) {
    wait_for([&] { return event.wait(); });
  }
  /// Waits for work, and adds the time that it took on the stream.
  void wait(timed_work& work, double& seconds) {
    wait_for([&] { return work.wait(queue_); });
    seconds += work.seconds();
  }
  /// Waits for what the caller has enqueued on another stream, and for what is on this one.
  void settle() const noexcept {
    if (queue_.in_host_memory()) return;
    try {
      auto over = stream_event{};
      queue_.submit([](void*, communicator_ref const&) {}, nullptr, over.next());
      queue_.synchronize();
    } catch (std::exception const&) {  // reported by the stream, now or on its next use
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
  /// Adds the rows per rank of one layer.
  void balance(std::span<std::uint64_t const> device_loads) {
    balances_.push_back(max_over_mean(device_loads));
  }
  /// Returns the metrics of the iteration, with the peaks of the pools, and resets all counters.
  [[nodiscard]] iteration_metrics close(slot_pool& replicas, slot_pool& partials) {
    metrics.replica_slots_peak = replicas.peak();
    metrics.partial_slots_peak = partials.peak();
    metrics.replica_slots_now = replicas.used();
    metrics.partial_slots_now = partials.used();
    replicas.forget_peak();
    partials.forget_peak();
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
  template <class Wait>
  void wait_for(Wait wait) {
    expose([&] {
      if (!wait()) throw poisoned_stream{"materializer: the stream of its communicator has failed"};
    });
  }
  void count(wire_bytes const& moved) {
    metrics.bytes_inside_nodes += moved.inside_nodes;
    metrics.bytes_between_nodes += moved.between_nodes;
  }

  work_queue const& queue_;
  trace_output trace_;
  std::vector<double> balances_;  // of the layers
};

}  // namespace fssdp::detail
