// SPDX-License-Identifier: Apache-2.0
/// Blocks of pinned memory, by powers of two: what is freed is used again for the same size.
#include "gpu/pinned_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

namespace {

struct free_block {
  free_block* next;
};

std::mutex arena_mutex;  // guards what follows
std::byte* arena = nullptr;
std::size_t arena_bytes = 0;
std::size_t arena_used = 0;
std::array<free_block*, 64> free_blocks{};  // [log2 of the size]
std::atomic<bool> is_open = false;

constexpr std::size_t block_head = 256;  // in front of each block: its size; also its alignment

std::size_t class_of(std::size_t bytes) {
  return static_cast<std::size_t>(std::bit_width(std::max(bytes, block_head) - 1));
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (!is_open) {
    auto const unit = std::max(alignment, alignof(std::max_align_t));
    if (auto* const memory =
            std::aligned_alloc(unit, (std::max(bytes, unit) + unit - 1) / unit * unit))
      return memory;
    throw std::bad_alloc{};
  }
  auto const lock = std::scoped_lock{arena_mutex};
  if (alignment > block_head) throw std::bad_alloc{};
  auto const size_class = class_of(bytes);
  auto& first = free_blocks[size_class];
  if (first != nullptr) {
    auto* const block = first;
    first = block->next;
    return block;
  }
  auto const size = std::size_t{1} << size_class;
  if (arena_bytes - arena_used < block_head + size) throw std::bad_alloc{};
  auto* const head = arena + arena_used;
  arena_used += block_head + size;
  *reinterpret_cast<std::size_t*>(head) = size_class;
  return head + block_head;
}
void give(void* memory) noexcept {
  auto* const at = static_cast<std::byte*>(memory);
  if (arena == nullptr || at < arena || at >= arena + arena_bytes) return std::free(memory);
  auto const lock = std::scoped_lock{arena_mutex};
  auto& first = free_blocks[*reinterpret_cast<std::size_t*>(at - block_head)];
  first = new (memory) free_block{first};
}

}  // namespace

namespace gpu_tests {

pinned_memory::pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  auto const code = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (code != cudaSuccess)
    throw std::runtime_error{std::string{"cudaHostAlloc: "} + cudaGetErrorString(code)};
  arena = static_cast<std::byte*>(memory);
  arena_bytes = bytes;
  is_open = true;
}
pinned_memory::~pinned_memory() { is_open = false; }

}  // namespace gpu_tests

void* operator new(std::size_t bytes) { return take(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }
