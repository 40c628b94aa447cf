// SPDX-License-Identifier: Apache-2.0
/// Two pinned buffers through which device memory is written to files and read from them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/device_staging.hpp"

namespace fssdp {

/// The device_staging of a stream: copies run after the work on it.
///
///     auto staging = fssdp::cuda_staging{stream};
///     part.add("weight", weights_of_device, staging);
///     fssdp::save_checkpoint(comm, parts, {.folder = "run", .step = n});
///
/// @cost two buffers of pinned memory, which is slow to allocate: make it once; per copy one call
///       and one recorded event. The host waits for copies without a deadline, so synchronize the
///       communicator before
class cuda_staging final : public device_staging {
 public:
  /// @param bytes of each buffer; for checkpoints 1 MiB or more, and 8 MiB for any conversion in
  ///        one step
  /// @pre the stream is of the current device, and outlives it
  /// @throws argument_error if bytes is 0; out_of_memory, transport_error
  explicit cuda_staging(cudaStream_t stream, std::size_t bytes = std::size_t{8} << 20U,
                        rank_id me = {})
      : stream_{stream}, bytes_{bytes}, me_{me} {
    detail::require(bytes != 0, "cuda_staging: buffers of 0 bytes; expected 1 or more");
    for (auto& buffer : buffers_)
      buffer = {detail::allocate_pinned(me, bytes, "a buffer (cuda_staging)"),
                detail::make_cuda_event(me)};
  }
  ~cuda_staging() override {
    for (auto const& buffer : buffers_) (void)cudaEventSynchronize(buffer.copied.get());
  }

  [[nodiscard]] std::span<std::byte> buffer(int which) override {
    return {at(which).memory.get(), bytes_};
  }
  /// @throws transport_error
  void begin_read(int which, std::size_t first, std::span<std::byte const> from) override {
    copy(which, at(which).memory.get() + first, from.data(), from.size());
  }
  /// @throws transport_error
  void begin_write(int which, std::size_t first, std::span<std::byte> to) override {
    copy(which, to.data(), at(which).memory.get() + first, to.size());
  }
  /// @throws transport_error
  void await(int which) override {
    detail::cuda_require(cudaEventSynchronize(at(which).copied.get()), me_, "cudaEventSynchronize");
  }

 private:
  struct pinned_buffer {
    detail::pinned_bytes memory;
    detail::cuda_event copied;  // reached at once if there was no copy
  };

  [[nodiscard]] pinned_buffer& at(int which) { return buffers_[which == 0 ? 0 : 1]; }
  void copy(int which, void* to, void const* from, std::size_t bytes) {
    if (bytes == 0) return;
    detail::cuda_require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), me_,
                         "cudaMemcpyAsync");
    detail::cuda_require(cudaEventRecord(at(which).copied.get(), stream_), me_, "cudaEventRecord");
  }

  cudaStream_t stream_;
  std::size_t bytes_;
  rank_id me_;
  std::array<pinned_buffer, 2> buffers_;
};

}  // namespace fssdp
