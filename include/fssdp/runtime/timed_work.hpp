// SPDX-License-Identifier: Apache-2.0
/// Work on the stream of a communicator that can be waited for, and how long it took there.
#pragma once

#include <chrono>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/stream_event.hpp"
#include "fssdp/core/trace.hpp"
#include "fssdp/core/trace_recorder.hpp"

namespace fssdp {

/// Used again and again, for one piece of work at a time.
class timed_work {
 public:
  /// Has work(comm) run on the stream of a communicator, between two notes of the time.
  /// @param trace where the time is recorded, too; may be null
  /// @param describe() what it is recorded as: a traced_work, asked for when the work has run
  /// @pre what was submitted before is over; this and the recorder outlive the work
  template <communicator Comm, class Describe, class Work>
  void submit(Comm& comm, trace_recorder* trace, Describe describe, Work work) {
    auto mark = over_.next();
    fssdp::submit(comm, [this](auto&) { begin_ = trace_clock::now(); });
    fssdp::submit(comm, std::move(work));
    fssdp::submit(comm, [this, trace, describe, last = std::move(mark)](auto&) mutable {
      end_ = trace_clock::now();
      if (trace != nullptr) trace->record({describe(), begin_, end_});
      last.reach();
    });
  }
  /// @return false if the stream has failed before
  [[nodiscard]] bool wait() { return over_.wait(); }
  /// @pre it is over
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>{end_ - begin_}.count();
  }

 private:
  stream_event over_;
  trace_clock::time_point begin_;
  trace_clock::time_point end_;
};

}  // namespace fssdp
