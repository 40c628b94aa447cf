// SPDX-License-Identifier: Apache-2.0
/// Times on streams of one device, by events.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/trace/trace.hpp"

namespace overlap {

using fssdp::detail::cuda_event;

/// One with a time.
[[nodiscard]] inline cuda_event make_timed_event() {
  auto made = cudaEvent_t{};
  fssdp::detail::cuda_require(cudaEventCreateWithFlags(&made, cudaEventDefault), {},
                              "cudaEventCreateWithFlags");
  return cuda_event{made};
}
inline void record(cuda_event const& event, cudaStream_t stream) {
  fssdp::detail::cuda_require(cudaEventRecord(event.get(), stream), {}, "cudaEventRecord");
}
inline void await(cuda_event const& event, cudaStream_t stream) {
  fssdp::detail::cuda_require(cudaStreamWaitEvent(stream, event.get(), 0), {},
                              "cudaStreamWaitEvent");
}

/// The time from one event to another, as one of the clock of traces.
/// @pre both have been reached
[[nodiscard]] inline fssdp::trace_clock::time_point time_from(cuda_event const& origin,
                                                              cuda_event const& event) {
  auto milliseconds = 0.0F;
  fssdp::detail::cuda_require(cudaEventElapsedTime(&milliseconds, origin.get(), event.get()), {},
                              "cudaEventElapsedTime");
  return fssdp::trace_clock::time_point{std::chrono::duration_cast<fssdp::trace_clock::duration>(
      std::chrono::duration<double, std::milli>{milliseconds})};
}

/// What stands between two events on a stream.
struct stream_range {
  cuda_event begin = make_timed_event();
  cuda_event end = make_timed_event();
};

}  // namespace overlap
