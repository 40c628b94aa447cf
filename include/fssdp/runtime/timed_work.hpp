// SPDX-License-Identifier: Apache-2.0
/// Work on the stream of a communicator that can be waited for, and how long it took there.
#pragma once

#include <chrono>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/stream_event.hpp"

namespace fssdp {

/// Used again and again, for one piece of work at a time.
class timed_work {
 public:
  /// Calls work(), which is to submit to `comm`, between two notes of the time on its stream.
  /// @pre what was submitted before is over; this outlives the work
  template <communicator Comm, class Work>
  void submit(Comm& comm, Work work) {
    auto mark = over_.next();
    fssdp::submit(comm, [this](auto&) { begin_ = clock::now(); });
    work();
    fssdp::submit(comm, [this, last = std::move(mark)](auto&) mutable {
      end_ = clock::now();
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
  using clock = std::chrono::steady_clock;

  stream_event over_;
  clock::time_point begin_;
  clock::time_point end_;
};

}  // namespace fssdp
