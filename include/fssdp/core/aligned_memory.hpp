// SPDX-License-Identifier: Apache-2.0
/// Blocks of host memory that begin at a cache line.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace fssdp::detail {

inline constexpr std::size_t cache_line = 64;  // enough for any vector register, too

struct aligned_delete {
  void operator()(std::byte* memory) const {
    ::operator delete (memory, std::align_val_t{cache_line});
  }
};
using aligned_memory = std::unique_ptr<std::byte, aligned_delete>;

[[nodiscard]] inline aligned_memory allocate_aligned(std::size_t bytes) {
  return aligned_memory{
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{cache_line}))};
}

/// The next multiple of a cache line.
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + cache_line - 1) / cache_line * cache_line;
}

}  // namespace fssdp::detail
