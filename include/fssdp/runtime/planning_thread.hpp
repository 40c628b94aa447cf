// SPDX-License-Identifier: Apache-2.0
/// Where layers are planned while the caller goes on.
#pragma once

#include <utility>

#include "fssdp/core/error.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/stream/host_stream.hpp"

namespace fssdp::detail {

/// A thread that works for one layer after the other.
class planning_thread {
 public:
  /// @pre the meter outlives it
  explicit planning_thread(iteration_meter& meter) : meter_{meter} {}

  /// Has work() done, for a layer whose last work there is finished.
  /// @throws what earlier work has thrown
  template <class Work>
  void submit(materialized_layer& layer, Work work) {
    try {
      thread_.enqueue([work = std::move(work), done = layer.next_planned.next()]() mutable {
        work();
        done.reach();
      });
    } catch (poisoned_stream const&) {
      thread_.synchronize();  // throws the cause
      throw;
    }
  }
  /// Waits until a layer has been planned.
  /// @throws what solver or planner have thrown
  void finish(materialized_layer& layer) {
    if (!layer.next_planned.is_over()) meter_.expose([&] { (void)layer.next_planned.wait(); });
    if (!layer.next_planned.wait()) thread_.synchronize();
  }

 private:
  iteration_meter& meter_;
  host_stream thread_;
};

}  // namespace fssdp::detail
