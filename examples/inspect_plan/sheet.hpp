// SPDX-License-Identifier: Apache-2.0
/// Where things lie on the picture of a plan.
#pragma once

namespace inspect::detail {

/// Distances in pixels.
struct sheet {
  static constexpr double left = 120;
  static constexpr double top = 100;
  static constexpr double width = 1160;  ///< of the rows
  static constexpr double right = 30;
  static constexpr double comm = 16;
  static constexpr double between_nodes = 8;
  static constexpr double legend_entry = 110;
};

}  // namespace inspect::detail
