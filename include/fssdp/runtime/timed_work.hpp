// SPDX-License-Identifier: Apache-2.0
/// Work on the stream of a communicator that can be waited for, and how long it took there.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_output.hpp"

namespace fssdp {

/// Used again and again, for one piece of work at a time.
class timed_work {
 public:
  /// Has work(comm) run on the stream of a communicator, between two notes of the time.
  /// @param trace where it is a range
  /// @param describe() what it is there: a traced_work, asked for when the work begins
  /// @pre what was submitted before is over; this and `trace` outlive the work
  template <communicator Comm, class Describe, class Work>
  void submit(Comm& comm, trace_output const& trace, Describe describe, Work work) {
    fssdp::submit(comm, [this, &trace, describe, work = std::move(work),
                         mark = over_.next()](auto& lane) mutable {
      auto const about = traced_work{describe()};
      auto range = trace_range{&trace, about.lane, about.name, about.numbers};
      begin_ = trace_clock::now();
      work(lane);
      end_ = trace_clock::now();
      range.end();
      mark.reach();
    });
    if constexpr (side_lane<Comm>) position_ = comm.position();
  }
  /// @return false if the stream has failed before
  [[nodiscard]] bool wait() { return over_.wait(); }
  /// The same for a caller who computes beside the lane: there it is his stream that waits.
  template <communicator Comm>
  [[nodiscard]] bool wait(Comm& comm) {
    auto const is_sound = over_.wait();
    if constexpr (side_lane<Comm>) comm.await(position_);
    return is_sound;
  }
  /// On a side_lane: of the host, to enqueue it.
  /// @pre it is over
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>{end_ - begin_}.count();
  }

 private:
  stream_event over_;
  std::uint64_t position_ = 0;  // of a side_lane
  trace_clock::time_point begin_;
  trace_clock::time_point end_;
};

}  // namespace fssdp
