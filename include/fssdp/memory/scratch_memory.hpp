// SPDX-License-Identifier: Apache-2.0
/// Memory that a function needs while it runs, kept by the caller between calls.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/memory/aligned_memory.hpp"

namespace fssdp {

/// A block of host memory that only grows.
class scratch_memory {
 public:
  /// At least `bytes` bytes, aligned to a cache line, contents unspecified; valid until the next
  /// call. Allocates only if no earlier call has asked for as much.
  [[nodiscard]] std::span<std::byte> reserve(std::size_t bytes) {
    if (bytes > this->bytes()) memory_ = detail::allocate_aligned(bytes);
    return {memory_.get(), bytes};
  }
  [[nodiscard]] std::size_t bytes() const { return detail::allocated_bytes(memory_); }

 private:
  detail::aligned_memory memory_;
};

}  // namespace fssdp
