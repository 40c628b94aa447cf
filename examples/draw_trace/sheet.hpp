// SPDX-License-Identifier: Apache-2.0
/// Where things lie on the picture of a trace, and which colours they have.
#pragma once

#include <array>

namespace draw::detail {

/// Distances in pixels.
struct sheet {
  static constexpr double left = 170;
  static constexpr double top = 86;
  static constexpr double width = 1160;  ///< of the rows
  static constexpr double right = 30;
  static constexpr double level = 16;
  static constexpr double between_rows = 3;
  static constexpr double between_ranks = 10;
  static constexpr double legend_entry = 130;
};

/// Of tracks, in the order of their names; of medium brightness, so that they stand out from white
/// and from black.
inline constexpr auto colours = std::array{"#5b9bd5", "#c678dd", "#6fae46", "#ed7d31",
                                           "#2bb5a8", "#c99700", "#e06c75", "#9aa5b1"};

}  // namespace draw::detail
