// SPDX-License-Identifier: Apache-2.0
/// Numbers as people read them.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace program {

/// 1536 -> "1.5 KiB".
[[nodiscard]] inline std::string readable_bytes(std::uint64_t bytes) {
  constexpr auto units = std::array{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  auto unit = std::size_t{0};
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 1024 && value != static_cast<int>(value) ? 1 : 0,
                     units[unit]);
}

/// 1, "node" -> "1 node".
[[nodiscard]] inline std::string counted(std::uint64_t count, char const* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace program
