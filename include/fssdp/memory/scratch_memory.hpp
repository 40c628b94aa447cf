// SPDX-License-Identifier: Apache-2.0
/// Temporary memory of a function, which the caller keeps between calls.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/memory/aligned_memory.hpp"

namespace fssdp {

/// A block of host memory that only grows.
class scratch_memory {
 public:
  /// At least `bytes` bytes, aligned to a cache line, with unspecified contents; valid until the
  /// next call. Allocates only if this is the largest size so far.
  [[nodiscard]] std::span<std::byte> reserve(std::size_t bytes) {
    if (bytes > this->bytes()) memory_ = detail::allocate_aligned(bytes);
    return {memory_.get(), bytes};
  }
  [[nodiscard]] std::size_t bytes() const { return detail::allocated_bytes(memory_); }

 private:
  detail::aligned_memory memory_;
};

}  // namespace fssdp
