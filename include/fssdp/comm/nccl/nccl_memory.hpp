// SPDX-License-Identifier: Apache-2.0
/// Memory of a device that NCCL can open to other ranks.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>
#include <span>

#include "fssdp/comm/nccl/nccl_call.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// Memory of the current device that NCCL has allocated: an arena as cuda_memory, which can become
/// a window (nccl_registration). Make it once: to allocate and to free waits for the device.
class nccl_memory {
 public:
  /// @throws transport_error if there is not so much
  explicit nccl_memory(std::size_t bytes, rank_id me = {}) : size_{bytes} {
    void* memory = nullptr;
    detail::nccl_require(ncclMemAlloc(&memory, bytes), me, "ncclMemAlloc");
    memory_.reset(static_cast<std::byte*>(memory));
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct give_back {
    void operator()(std::byte* memory) const { ncclMemFree(memory); }
  };
  std::unique_ptr<std::byte, give_back> memory_;
  std::size_t size_;
};

}  // namespace fssdp
