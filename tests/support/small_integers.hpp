// SPDX-License-Identifier: Apache-2.0
/// Test data whose sums are exact in every element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "fssdp/element/dtype.hpp"

namespace support {

/// A number from -3 to 3 that depends on the place alone.
[[nodiscard]] inline int small_integer(std::initializer_list<std::size_t> place) {
  auto h = std::uint64_t{0x9e3779b97f4a7c15};
  for (auto const step : place) {
    h = (h ^ step) * 0xff51afd7ed558ccd;
    h ^= h >> 32U;
  }
  return static_cast<int>(h % 7) - 3;
}

template <fssdp::element T>
[[nodiscard]] T to(double value) {
  return static_cast<T>(value);
}
template <fssdp::element T>
[[nodiscard]] double from(T value) {
  return static_cast<double>(value);
}

}  // namespace support
