// SPDX-License-Identifier: Apache-2.0
/// Calls of the CUDA runtime: errors are exceptions, handles are closed.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

namespace detail {

/// @throws transport_error with this rank unless a call of the CUDA runtime has succeeded
inline void cuda_require(cudaError_t code, rank_id me, char const* call) {
  if (code != cudaSuccess)
    throw transport_error{me, text(call, " on rank ", me, ": ", cudaGetErrorName(code), " (",
                                   static_cast<int>(code), "): ", cudaGetErrorString(code))};
}
/// The error for exhausted device memory.
/// @param what  the purpose of the memory
/// @param bytes 0 if unknown
[[nodiscard]] inline out_of_memory no_device_memory(rank_id me, std::size_t bytes,
                                                    char const* what) {
  (void)cudaGetLastError();  // clears the error, which is reported here
  auto device = 0;
  auto left = std::size_t{0};
  auto all = std::size_t{0};
  auto const wanted = bytes == 0 ? std::string{"memory"} : text(bytes, " bytes");
  if (cudaGetDevice(&device) != cudaSuccess || cudaMemGetInfo(&left, &all) != cudaSuccess)
    return {me, device, bytes, text("rank ", me, " wants ", wanted, " for ", what)};
  return {me, device, bytes,
          text("rank ", me, " wants ", wanted, " of device ", device, " for ", what, "; ", left,
               " of ", all, " bytes are left")};
}
/// For a call that allocates, outside of exchanges.
/// @param bytes, what as for no_device_memory
/// @throws out_of_memory if there is not enough memory; transport_error on other errors
inline void cuda_require_memory(cudaError_t code, rank_id me, std::size_t bytes, char const* what,
                                char const* call) {
  if (code == cudaErrorMemoryAllocation) throw no_device_memory(me, bytes, what);
  cuda_require(code, me, call);
}

struct cuda_close {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
struct cuda_free_pinned {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
/// An event without timing.
using cuda_event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cuda_close>;
using cuda_bytes = std::unique_ptr<std::byte, cuda_close>;
using pinned_bytes = std::unique_ptr<std::byte, cuda_free_pinned>;

[[nodiscard]] inline cuda_event make_cuda_event(rank_id me) {
  auto event = cudaEvent_t{};
  cuda_require_memory(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), me, 0, "an event",
                      "cudaEventCreateWithFlags");
  return cuda_event{event};
}
/// @param what the purpose of the memory
/// @throws out_of_memory, transport_error
[[nodiscard]] inline cuda_bytes allocate_on_device(rank_id me, std::size_t bytes,
                                                   char const* what) {
  void* memory = nullptr;
  if (bytes != 0) cuda_require_memory(cudaMalloc(&memory, bytes), me, bytes, what, "cudaMalloc");
  return cuda_bytes{static_cast<std::byte*>(memory)};
}
/// Pinned host memory, which all devices can access in place.
/// @throws out_of_memory, transport_error
[[nodiscard]] inline pinned_bytes allocate_pinned(rank_id me, std::size_t bytes, char const* what) {
  void* memory = nullptr;
  auto const code = cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1),
                                  cudaHostAllocPortable | cudaHostAllocMapped);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw out_of_memory{me, -1, bytes,
                        text("rank ", me, " wants ", bytes, " bytes of pinned host memory for ",
                             what, ", which are not available")};
  }
  cuda_require(code, me, "cudaHostAlloc");
  return pinned_bytes{static_cast<std::byte*>(memory)};
}
/// While it lives, its thread may query whether work has finished while another thread captures a
/// graph, which CUDA would invalidate otherwise. Captured work itself must not be queried.
class beside_captures {
 public:
  beside_captures() { exchange(); }
  beside_captures(beside_captures const&) = delete;
  beside_captures& operator=(beside_captures const&) = delete;
  ~beside_captures() { exchange(); }

 private:
  void exchange() { (void)cudaThreadExchangeStreamCaptureMode(&other_mode_); }

  cudaStreamCaptureMode other_mode_ = cudaStreamCaptureModeRelaxed;
};
/// Whether all work on a stream has run, or an event has been reached: cudaSuccess,
/// cudaErrorNotReady, or an error.
[[nodiscard]] inline cudaError_t query(cudaStream_t stream) {
  auto const beside = beside_captures{};
  return cudaStreamQuery(stream);
}
[[nodiscard]] inline cudaError_t query(cudaEvent_t event) {
  auto const beside = beside_captures{};
  return cudaEventQuery(event);
}
/// Whether the stream is being captured into a graph.
[[nodiscard]] inline bool is_captured(cudaStream_t stream, rank_id me) {
  auto status = cudaStreamCaptureStatusNone;
  cuda_require(cudaStreamIsCapturing(stream, &status), me, "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace detail

/// A new stream on the current device, which does not synchronize with the default stream.
using cuda_stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, detail::cuda_close>;

/// Whether the blocks of a stream's kernels have priority over waiting blocks of other streams.
enum class cuda_priority { normal, high };

/// @throws transport_error if there is no device; out_of_memory
[[nodiscard]] inline cuda_stream make_cuda_stream(rank_id me = {},
                                                  cuda_priority priority = cuda_priority::normal) {
  auto least = 0;
  auto greatest = 0;
  detail::cuda_require(cudaDeviceGetStreamPriorityRange(&least, &greatest), me,
                       "cudaDeviceGetStreamPriorityRange");
  auto stream = cudaStream_t{};
  detail::cuda_require_memory(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                   priority == cuda_priority::high ? greatest : least),
      me, 0, "a stream", "cudaStreamCreateWithPriority");
  return cuda_stream{stream};
}

/// Memory of the current device, aligned to a cache line: an arena for shards, replicas, partial
/// gradients and scratch. To be allocated once, as allocating and freeing wait for the device.
class cuda_memory {
 public:
  /// @throws out_of_memory if there is not enough memory; transport_error
  explicit cuda_memory(std::size_t bytes, rank_id me = {})
      : memory_{detail::allocate_on_device(me, bytes, "an arena (cuda_memory)")}, size_{bytes} {}
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  detail::cuda_bytes memory_;
  std::size_t size_;
};

}  // namespace fssdp
