// SPDX-License-Identifier: Apache-2.0
/// Blocks of memory aligned to a cache line.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>

namespace fssdp::detail {

inline constexpr std::size_t cache_line = 64;  // enough for any vector register, too

/// Returns a block to the resource that it came from.
struct aligned_delete {
  std::pmr::memory_resource* from = std::pmr::new_delete_resource();
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const { from->deallocate(memory, bytes, cache_line); }
};
using aligned_memory = std::unique_ptr<std::byte, aligned_delete>;

[[nodiscard]] inline aligned_memory allocate_aligned(
    std::size_t bytes, std::pmr::memory_resource* from = std::pmr::new_delete_resource()) {
  return {static_cast<std::byte*>(from->allocate(bytes, cache_line)), {from, bytes}};
}
[[nodiscard]] inline std::size_t allocated_bytes(aligned_memory const& memory) {
  return memory == nullptr ? 0 : memory.get_deleter().bytes;
}

/// Rounds up to a multiple of a cache line.
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + cache_line - 1) / cache_line * cache_line;
}

}  // namespace fssdp::detail
