// SPDX-License-Identifier: Apache-2.0
/// Evicts all data from the caches.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/core/index.hpp"

namespace perf {

class cache_eraser {
 public:
  /// Memory is taken when it is first used.
  explicit cache_eraser(int ranks) : blocks_(static_cast<std::size_t>(ranks)) {}

  /// Called by every rank: together they write twice what the largest cache holds.
  void erase(fssdp::rank_id rank) {
    auto& block = blocks_[rank.index()];
    if (block.empty()) block.resize(2 * largest_cache() / blocks_.size() + 1);
    std::ranges::fill(block, static_cast<std::byte>(++count_of(block)));
  }

 private:
  static std::size_t largest_cache() {
    auto bytes = 32L << 20U;  // where the system does not tell
#if defined(_SC_LEVEL3_CACHE_SIZE)
    bytes = std::max(bytes, sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
    return static_cast<std::size_t>(bytes);
  }
  /// What the last pass wrote: another value each time, so that no pass can be left out.
  static unsigned char& count_of(std::vector<std::byte>& block) {
    return reinterpret_cast<unsigned char&>(block.front());
  }

  std::vector<std::vector<std::byte>> blocks_;  // [rank]
};

}  // namespace perf
