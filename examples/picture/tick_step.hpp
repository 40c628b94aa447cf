// SPDX-License-Identifier: Apache-2.0
/// Round distances for the ticks of an axis.
#pragma once

#include <cmath>
#include <initializer_list>

namespace picture {

/// 1, 2 or 5 times a power of ten, about a tenth of the whole.
[[nodiscard]] inline double tick_step(double whole) {
  auto const power = std::pow(10, std::floor(std::log10(whole / 10)));
  for (auto const factor : {1.0, 2.0, 5.0})
    if (whole / (factor * power) <= 12) return factor * power;
  return 10 * power;
}

}  // namespace picture
