// SPDX-License-Identifier: Apache-2.0
/// Data for buffers whose sums are exact, so that a check can compare elements for equality.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fssdp/element/dtype.hpp"

namespace perf {

/// A power of two up to which every integer is a T: 8 for fp8_e5m2, 16 for fp8_e4m3, 256 for bf16;
/// of types with many bits one that is large enough.
template <fssdp::element T>
[[nodiscard]] constexpr int exact_integers() {
  auto most = 1;
  for (auto is_exact = true; is_exact && most < 1 << 20;) {
    most *= 2;
    auto const next = static_cast<float>(most + 1);
    is_exact = static_cast<float>(static_cast<T>(next)) == next;
  }
  return most;
}

/// Integers that depend on the place alone. They are so small that sums of them are exact in any
/// order: from -3 to 3, or to less where the type has few bits. Where it has fewer integers than
/// there are summands, the others are zero: other ones for each element.
class small_integers {
 public:
  /// @param summands at most, in successive rows
  /// @param exact up to where integers are exact
  constexpr small_integers(int summands, int exact)
      : summands_{static_cast<std::uint64_t>(summands)},
        exact_{static_cast<std::uint64_t>(exact)},
        largest_{std::clamp(exact / summands, 1, 3)} {}

  [[nodiscard]] constexpr int operator()(std::uint64_t row, std::uint64_t i) const {
    if ((row + i) % summands_ >= exact_) return 0;
    auto const values = 2 * static_cast<std::uint64_t>(largest_) + 1;
    auto const mixed = (row * 0x9e3779b97f4a7c15 + i) * 0xff51afd7ed558ccd;
    auto const h = (mixed ^ (mixed >> 32U)) * 0xbf58476d1ce4e5b9;  // neighbours differ
    return static_cast<int>(((h >> 32U) * values) >> 32U) - largest_;
  }

 private:
  std::uint64_t summands_;
  std::uint64_t exact_;
  int largest_;
};

}  // namespace perf
