// SPDX-License-Identifier: Apache-2.0
/// The time that a call takes on the streams of the ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "contestant.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"

namespace perf {

/// Two events for each rank. Each stream is timed by itself: devices have no clock in common. The
/// host's would count how late it notices that a stream has finished, too.
class stream_timers {
 public:
  explicit stream_timers(int ranks) : timers_(static_cast<std::size_t>(ranks)) {}

  /// @pre the rank's device is the current one
  void begin(fssdp::rank_id rank, cudaStream_t stream) {
    auto& mine = timers_[rank.index()];
    if (mine.begin == nullptr) mine = {make_event(rank), make_event(rank)};
    record(mine.begin, rank, stream);
  }
  void end(fssdp::rank_id rank, cudaStream_t stream) {
    record(timers_[rank.index()].end, rank, stream);
  }
  /// @pre the stream has been synchronized
  [[nodiscard]] double seconds(fssdp::rank_id rank) const {
    auto const& mine = timers_[rank.index()];
    auto milliseconds = 0.0F;
    fssdp::detail::cuda_require(
        cudaEventElapsedTime(&milliseconds, mine.begin.get(), mine.end.get()), rank,
        "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  using event = fssdp::detail::cuda_event;  // here with a time
  struct timer {
    event begin;
    event end;
  };

  static event make_event(fssdp::rank_id me) {
    auto made = cudaEvent_t{};
    fssdp::detail::cuda_require(cudaEventCreateWithFlags(&made, cudaEventDefault), me,
                                "cudaEventCreateWithFlags");
    return event{made};
  }
  static void record(event const& of, fssdp::rank_id me, cudaStream_t stream) {
    fssdp::detail::cuda_require(cudaEventRecord(of.get(), stream), me, "cudaEventRecord");
  }

  std::vector<timer> timers_;  // [rank]
};

/// The contestant, which waits for what it enqueues, and is timed on its stream.
template <class Comm>
[[nodiscard]] basic_contestant<Comm> on_streams(basic_contestant<Comm> one, int ranks) {
  auto const timers = std::make_shared<stream_timers>(ranks);
  one.on_threads = [timers, enqueue = std::move(one.on_threads)](Comm& comm) {
    timers->begin(comm.rank(), comm.stream());
    enqueue(comm);
    timers->end(comm.rank(), comm.stream());
    comm.synchronize();
  };
  one.seconds = [timers](fssdp::rank_id rank) { return timers->seconds(rank); };
  return one;
}

}  // namespace perf
