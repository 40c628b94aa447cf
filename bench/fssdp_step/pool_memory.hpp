// SPDX-License-Identifier: Apache-2.0
/// The memory of a device, in the order of the stream that computes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <span>
#include <vector>

#include "device_math.hpp"
#include "device_memory.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"

namespace step {

/// Blocks come from a pool of the device: neither taking one nor giving it back waits for anything.
class pool_memory : public device_memory {
 public:
  /// @param pool null: CUDA's own
  /// @param await() waits for the stream, with a deadline
  /// @pre all of them outlive it
  pool_memory(fssdp::rank_id me, cudaStream_t stream, cudaMemPool_t pool, device_math& math,
              std::function<void()> const& await)
      : me_{me}, stream_{stream}, math_{&math}, await_{&await}, resource_{me, stream, pool} {}

  [[nodiscard]] std::pmr::memory_resource* resource() override { return &resource_; }
  void fill(std::span<float> numbers, float value) override {
    if (!numbers.empty()) math_->fill(numbers, value);
  }
  void fill(std::span<std::uint8_t> bytes, std::uint8_t value) override {
    if (bytes.empty()) return;
    fssdp::detail::cuda_require(cudaMemsetAsync(bytes.data(), value, bytes.size(), stream_), me_,
                                "cudaMemsetAsync");
  }
  void add(std::span<float> numbers, float value) override {
    if (!numbers.empty()) math_->add(numbers, value);
  }

 private:
  [[nodiscard]] std::span<std::byte const> bytes_on_host(
      std::span<std::byte const> bytes) override {
    copy_.resize(bytes.size());
    if (bytes.empty()) return copy_;
    (*await_)();
    fssdp::detail::cuda_require(
        cudaMemcpyAsync(copy_.data(), bytes.data(), bytes.size(), cudaMemcpyDeviceToHost, stream_),
        me_, "cudaMemcpyAsync");
    fssdp::detail::cuda_require(cudaStreamSynchronize(stream_), me_, "cudaStreamSynchronize");
    return copy_;
  }

  class pool_resource : public std::pmr::memory_resource {
   public:
    pool_resource(fssdp::rank_id me, cudaStream_t stream, cudaMemPool_t pool)
        : me_{me}, stream_{stream}, pool_{pool} {}

   private:
    /// @throws fssdp::out_of_memory
    void* do_allocate(std::size_t bytes, std::size_t) override {
      void* memory = nullptr;
      if (bytes == 0) return memory;
      auto const code = pool_ == nullptr ? cudaMallocAsync(&memory, bytes, stream_)
                                         : cudaMallocFromPoolAsync(&memory, bytes, pool_, stream_);
      fssdp::detail::cuda_require_memory(code, me_, bytes, "experts and rows",
                                         "cudaMallocFromPoolAsync");
      return memory;
    }
    void do_deallocate(void* memory, std::size_t, std::size_t) override {
      if (memory != nullptr) (void)cudaFreeAsync(memory, stream_);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
      return this == &other;
    }

    fssdp::rank_id me_;
    cudaStream_t stream_;
    cudaMemPool_t pool_;
  };

  fssdp::rank_id me_;
  cudaStream_t stream_;
  device_math* math_;
  std::function<void()> const* await_;
  pool_resource resource_;
  std::vector<std::byte> copy_;
};

}  // namespace step
