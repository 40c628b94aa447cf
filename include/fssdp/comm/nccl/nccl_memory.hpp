// SPDX-License-Identifier: Apache-2.0
/// Device memory that NCCL can open to other ranks.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <span>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/nccl/nccl_call.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// Memory of the current device that NCCL has allocated: an arena like cuda_memory, which can be
/// registered as a window (nccl_registration). To be allocated once, as allocating and freeing wait
/// for the device.
class nccl_memory {
 public:
  /// @throws out_of_memory if there is not enough memory; transport_error
  explicit nccl_memory(std::size_t bytes, rank_id me = {}) : size_{bytes} {
    void* memory = nullptr;
    auto const code = ncclMemAlloc(&memory, bytes);
    if (code == ncclUnhandledCudaError && left() < bytes)
      throw detail::no_device_memory(me, bytes, "an arena (nccl_memory)");
    detail::nccl_require(code, me, "ncclMemAlloc");
    memory_.reset(static_cast<std::byte*>(memory));
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  /// The free bytes of the device, for the error, as NCCL does not report why it fails.
  [[nodiscard]] static std::size_t left() {
    auto left = std::size_t{0};
    auto all = std::size_t{0};
    return cudaMemGetInfo(&left, &all) == cudaSuccess ? left : 0;
  }

  struct give_back {
    void operator()(std::byte* memory) const { ncclMemFree(memory); }
  };
  std::unique_ptr<std::byte, give_back> memory_;
  std::size_t size_;
};

}  // namespace fssdp
