// SPDX-License-Identifier: Apache-2.0
/// A timeline of a device, from events on its streams.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_recorder.hpp"

namespace step {

/// A trace_sink whose ranges are what the caller enqueues between their ends: gathers and reductions
/// on one stream, all else on the one that computes. Plans, and what other threads trace than the one
/// that makes this, are work of the host and have its times.
class stream_trace {
 public:
  using clock = fssdp::trace_clock;
  struct open_range {
    std::size_t event = 0;
    clock::time_point of_host = {};
  };

  /// @param to gets the events of every iteration when it has ended; may be null
  /// @pre the streams are of the current device, and outlive it
  stream_trace(fssdp::rank_id me, cudaStream_t computing, cudaStream_t moving,
               fssdp::trace_recorder* to)
      : me_{me}, computing_{computing}, moving_{moving}, to_{to} {}

  [[nodiscard]] open_range open(fssdp::traced_work const& work) noexcept {
    if (is_of_host(work)) return {.of_host = clock::now()};
    return {.event = note(stream_of(work))};
  }
  void close(open_range const& opened, fssdp::traced_work const& work) noexcept {
    if (is_of_host(work)) {
      if (to_ != nullptr) to_->record({work, opened.of_host, clock::now()});
    } else {
      ranges_.push_back({work, opened.event, note(stream_of(work))});
    }
  }

  /// Forgets what has been, and sets the clock.
  /// @pre nothing is on the streams
  void begin() {
    ranges_.clear();
    used_ = 0;
    (void)note(computing_);
    require_sound();
    fssdp::detail::cuda_require(cudaEventSynchronize(events_.front().get()), me_,
                                "cudaEventSynchronize");
    began_ = clock::now();
  }
  /// Passes on what has happened since `begin`.
  /// @pre nothing is on the streams
  void end() const {
    require_sound();
    if (to_ == nullptr) return;
    for (auto const& range : ranges_)
      to_->record({range.work, time_of(range.begin), time_of(range.end)});
  }
  /// The time of all ranges of a track since `begin`.
  /// @param name of those that count; empty: of all
  /// @pre nothing is on the streams
  [[nodiscard]] double seconds(fssdp::trace_track track, std::string_view name = {}) const {
    auto sum = clock::duration{};
    for (auto const& range : ranges_)
      if (range.work.track == track && (name.empty() || range.work.name.view() == name))
        sum += time_of(range.end) - time_of(range.begin);
    return std::chrono::duration<double>{sum}.count();
  }

 private:
  struct noted_range {
    fssdp::traced_work work;
    std::size_t begin;
    std::size_t end;
  };

  [[nodiscard]] bool is_of_host(fssdp::traced_work const& work) const {
    return work.name.view() == "plan" || std::this_thread::get_id() != caller_;
  }
  [[nodiscard]] cudaStream_t stream_of(fssdp::traced_work const& work) const {
    auto const moves = work.track == fssdp::gather_track || work.track == fssdp::reduce_track;
    return moves ? moving_ : computing_;
  }
  [[nodiscard]] std::size_t note(cudaStream_t stream) noexcept {
    if (used_ == events_.size()) {
      auto made = cudaEvent_t{};
      keep(cudaEventCreateWithFlags(&made, cudaEventDefault));
      events_.emplace_back(made);
    }
    keep(cudaEventRecord(events_[used_].get(), stream));
    return used_++;
  }
  void keep(cudaError_t code) {
    if (failure_ == cudaSuccess) failure_ = code;
  }
  void require_sound() const { fssdp::detail::cuda_require(failure_, me_, "an event of a trace"); }
  [[nodiscard]] clock::time_point time_of(std::size_t event) const {
    auto milliseconds = 0.0F;
    fssdp::detail::cuda_require(
        cudaEventElapsedTime(&milliseconds, events_.front().get(), events_[event].get()), me_,
        "cudaEventElapsedTime");
    return began_ + std::chrono::duration_cast<clock::duration>(
                        std::chrono::duration<double, std::milli>{milliseconds});
  }

  std::thread::id const caller_ = std::this_thread::get_id();
  fssdp::rank_id me_;
  cudaStream_t computing_;
  cudaStream_t moving_;
  fssdp::trace_recorder* to_;
  std::deque<fssdp::detail::cuda_event> events_;
  std::size_t used_ = 0;
  std::vector<noted_range> ranges_;
  clock::time_point began_;
  cudaError_t failure_ = cudaSuccess;
};

static_assert(fssdp::trace_sink<stream_trace>);

}  // namespace step
