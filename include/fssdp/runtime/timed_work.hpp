// SPDX-License-Identifier: Apache-2.0
/// Work on the stream of a communicator that can be waited for, and how long it took there.
#pragma once

#include <chrono>
#include <cstdint>

#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp::detail {

/// Used again and again, for one piece of work at a time.
class timed_work {
 public:
  /// Enqueues run(of, comm), between two notes of the time.
  /// @pre what was submitted before is over; this and `of` outlive the work
  void submit(work_queue const& queue, work_queue::function run, void* of) {
    run_ = run;
    of_ = of;
    queue.submit(&timed_work::measure, this, over_.next());
    position_ = queue.position();
  }
  /// Waits for it; where the caller computes on a device, it is the caller's stream that waits.
  /// @return false if the stream has failed before
  [[nodiscard]] bool wait(work_queue const& queue) {
    auto const is_sound = over_.wait();
    queue.await(position_);
    return is_sound;
  }
  /// Waits on the host, whatever became of it.
  void settle() { (void)over_.wait(); }
  /// Between devices: of the host, to enqueue it.
  /// @pre it is over
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
  std::uint64_t position_ = 0;  // of a communicator on a side stream
  trace_clock::time_point begin_;
  trace_clock::time_point end_;
};

}  // namespace fssdp::detail
