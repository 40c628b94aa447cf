// SPDX-License-Identifier: Apache-2.0
/// Where things lie on the picture of a plan.
#pragma once

#include <cmath>
#include <initializer_list>

namespace inspect::detail {

/// Distances in pixels.
struct sheet {
  static constexpr double left = 120;
  static constexpr double top = 100;
  static constexpr double width = 1160;  ///< of the lanes
  static constexpr double right = 30;
  static constexpr double lane = 16;
  static constexpr double between_nodes = 8;
  static constexpr double legend_entry = 110;
};

/// 1, 2 or 5 times a power of ten, about a tenth of the whole.
[[nodiscard]] inline double tick_step(double whole) {
  auto const power = std::pow(10, std::floor(std::log10(whole / 10)));
  for (auto const factor : {1.0, 2.0, 5.0})
    if (whole / (factor * power) <= 12) return factor * power;
  return 10 * power;
}

}  // namespace inspect::detail
