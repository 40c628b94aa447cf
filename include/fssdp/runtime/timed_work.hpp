// SPDX-License-Identifier: Apache-2.0
/// Work on the stream of a communicator: to wait for, with the time that it took there.
#pragma once

#include <chrono>
#include <cstdint>

#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp::detail {

/// Can be reused, for one piece of work at a time.
class timed_work {
 public:
  /// Enqueues run(of, comm), and records the time before and after it.
  /// @pre what was submitted before has finished; this and `of` outlive the work
  void submit(work_queue const& queue, work_queue::function run, void* of) {
    run_ = run;
    of_ = of;
    queue.submit(&timed_work::measure, this, over_.next());
    position_ = queue.position();
  }
  /// Waits for the work; where the caller computes on a device, makes the caller's stream wait.
  /// @return false if the stream has failed before
  [[nodiscard]] bool wait(work_queue const& queue) {
    auto const is_sound = over_.wait();
    queue.await(position_);
    return is_sound;
  }
  /// Waits on the host, whether or not the work has failed.
  void settle() { (void)over_.wait(); }
  /// How long the work took. Between devices: how long the host took to enqueue it.
  /// @pre it has finished
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>{end_ - begin_}.count();
  }

 private:
  static void measure(void* self, communicator_ref const& comm) {
    auto& work = *static_cast<timed_work*>(self);
    work.begin_ = trace_clock::now();
    work.run_(work.of_, comm);
    work.end_ = trace_clock::now();
  }

  work_queue::function run_ = nullptr;
  void* of_ = nullptr;
  stream_event over_;
  std::uint64_t position_ = 0;  // in the order of a side stream
  trace_clock::time_point begin_;
  trace_clock::time_point end_;
};

}  // namespace fssdp::detail
