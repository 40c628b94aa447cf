// SPDX-License-Identifier: Apache-2.0
/// Counts the bytes that a program has allocated. One source file of a program includes this.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

/// Of all threads together; programs that look at it have one.
struct memory_in_use {
  static inline std::size_t now = 0;
  static inline std::size_t peak = 0;

  static void* taken(void* memory) {
    if (memory == nullptr) throw std::bad_alloc{};
    now += malloc_usable_size(memory);
    peak = std::max(peak, now);
    return memory;
  }
  static void given_back(void* memory) noexcept {
    now -= malloc_usable_size(memory);
    std::free(memory);
  }
};

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return memory_in_use::taken(std::malloc(bytes == 0 ? 1 : bytes));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { memory_in_use::given_back(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  memory_in_use::given_back(memory);
}
