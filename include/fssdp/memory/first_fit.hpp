// SPDX-License-Identifier: Apache-2.0
/// Where blocks of any size lie in memory that is used again and again.
#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <map>

#include "fssdp/memory/aligned_memory.hpp"

namespace fssdp::detail {

/// Hands out offsets, each of a cache line: the lowest ones where there is room.
class first_fit {
 public:
  /// Where so many bytes have room.
  /// @cost O(gaps)
  [[nodiscard]] std::size_t allocate(std::size_t bytes) {
    bytes = padded(bytes);
    auto gap = gaps_.begin();
    while (gap->second - gap->first < bytes) ++gap;
    auto const [begin, end] = *gap;
    gaps_.erase(gap);
    if (end - begin > bytes) gaps_.emplace(begin + bytes, end);
    if (begin + bytes > most_) most_ = begin + bytes;
    return begin;
  }
  /// Gives back what allocate has returned for as many bytes.
  void free(std::size_t begin, std::size_t bytes) {
    auto end = begin + padded(bytes);
    auto const behind = gaps_.lower_bound(begin);
    if (behind != gaps_.begin() && std::prev(behind)->second == begin) {
      begin = std::prev(behind)->first;
      gaps_.erase(std::prev(behind));
    }
    if (behind != gaps_.end() && behind->first == end) {
      end = behind->second;
      gaps_.erase(behind);
    }
    gaps_.emplace(begin, end);
  }
  /// How many bytes have been in use, with the gaps between them.
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  static constexpr auto unlimited = std::numeric_limits<std::size_t>::max();

  std::map<std::size_t, std::size_t> gaps_ = {{0, unlimited}};  // begin and end
  std::size_t most_ = 0;
};

}  // namespace fssdp::detail
