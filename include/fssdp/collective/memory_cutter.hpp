// SPDX-License-Identifier: Apache-2.0
/// Divides scratch memory into parts.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/memory/aligned_memory.hpp"

namespace fssdp::detail {

/// Returns one part after the other, each aligned to a cache line.
class memory_cutter {
 public:
  explicit memory_cutter(std::byte* memory) : next_{memory} {}

  [[nodiscard]] std::byte* bytes(std::size_t count) {
    return std::exchange(next_, next_ + padded(count));
  }
  template <class Item>
  [[nodiscard]] std::span<Item> items(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<Item> && alignof(Item) <= cache_line);
    auto const all = std::span{reinterpret_cast<Item*>(bytes(count * sizeof(Item))), count};
    std::uninitialized_value_construct(all.begin(), all.end());
    return all;
  }

 private:
  std::byte* next_;
};

}  // namespace fssdp::detail
