// SPDX-License-Identifier: Apache-2.0
/// Counts allocations by replacing operator new. One source file of a program includes this.
#pragma once

#include <cstddef>
#include <new>
#include <string>

#include "support/memory_source.hpp"

namespace support {

inline thread_local long allocations = 0;  // of this thread: ranks do not count each other's

[[nodiscard]] inline void* counted_memory(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  auto const rounded = (bytes + alignment - 1) / alignment * alignment;
  if (auto* memory = take_memory(alignment, rounded == 0 ? alignment : rounded)) return memory;
  throw std::bad_alloc{};
}

/// How often the calling thread allocates in a function.
template <class Function>
[[nodiscard]] long allocations_in(Function function) {
  auto const before = allocations;
  function();
  return allocations - before;
}

/// Why tests that count are skipped; empty if they are not.
[[nodiscard]] inline std::string lacks_allocation_counts() {
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
  return "the thread sanitizer of Clang has an operator new of its own";
#endif
#endif
  return {};
}

}  // namespace support

// All other forms call these, but under a sanitizer. Where g++ inlines them it takes the free for a
// mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return support::counted_memory(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  return support::counted_memory(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return support::counted_memory(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { support::give_memory_back(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  support::give_memory_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  support::give_memory_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  support::give_memory_back(memory);
}
