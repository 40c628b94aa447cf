// SPDX-License-Identifier: Apache-2.0
/// Random numbers that are the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace support {

/// Draws from a seed. Unlike the distributions of std, it gives the same draws in every library.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_{seed} {}

  /// One of first, first + 1, ..., last.
  [[nodiscard]] int between(int first, int last) {
    return first + static_cast<int>(engine_() % static_cast<std::uint64_t>(last - first + 1));
  }
  [[nodiscard]] bool chance(int percent) { return between(1, 100) <= percent; }

  template <class T>
  [[nodiscard]] T const& one_of(std::vector<T> const& items) {
    return items[static_cast<std::size_t>(between(0, static_cast<int>(items.size()) - 1))];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (auto left = items.size(); left > 1; --left)
      std::swap(items[left - 1], items[static_cast<std::size_t>(engine_() % left)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace support
