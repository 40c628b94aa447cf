// SPDX-License-Identifier: Apache-2.0
/// A thread that plans layers while the caller continues.
#pragma once

#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "fssdp/stream/stream_event.hpp"

namespace fssdp::detail {

/// A layer, and the loads that it is planned for.
struct planning_job {
  materialized_layer* layer;
  expert_loads loads;
};

/// Plans layers in the order in which they are submitted.
class planning_thread {
 public:
  /// @pre the meter outlives it
  explicit planning_thread(iteration_meter& meter) : meter_{meter} {}

  /// Runs work(jobs) on the thread.
  /// @pre earlier work on these layers has finished
  /// @throws what earlier work has thrown
  template <class Work>
  void submit(std::vector<planning_job> jobs, Work work) {
    auto done = std::vector<stream_event::mark>{};
    done.reserve(jobs.size());
    for (auto const& job : jobs) done.push_back(job.layer->next_planned.next());
    try {
      thread_.enqueue(
          [jobs = std::move(jobs), work = std::move(work), done = std::move(done)]() mutable {
            work(std::as_const(jobs));
            for (auto& mark : done) mark.reach();
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
