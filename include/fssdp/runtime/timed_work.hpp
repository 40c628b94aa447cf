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
  /// Where the time is recorded, too, and as what.
  struct record_as {
    trace_recorder* trace = nullptr;
    traced_work work = {};
  };

  /// Calls work(), which is to submit to `comm`, between two notes of the time on its stream.
  /// @pre what was submitted before is over; this and the recorder outlive the work
  template <communicator Comm, class Work>
  void submit(Comm& comm, record_as const& record, Work work) {
    auto mark = over_.next();
    fssdp::submit(comm, [this](auto&) { begin_ = trace_clock::now(); });
    work();
    fssdp::submit(comm, [this, record, last = std::move(mark)](auto&) mutable {
      end_ = trace_clock::now();
      if (record.trace != nullptr) record.trace->record({record.work, begin_, end_});
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
