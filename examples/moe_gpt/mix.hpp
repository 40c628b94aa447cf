// SPDX-License-Identifier: Apache-2.0
/// Numbers that look random and depend on what they are for.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace moe_gpt {

/// A number that looks random and depends on every one of its arguments.
[[nodiscard]] constexpr std::uint64_t mix(std::initializer_list<std::uint64_t> parts) {
  auto state = std::uint64_t{0x243f6a8885a308d3};
  for (auto const part : parts) {
    state = (state ^ part) + 0x9e3779b97f4a7c15;
    state = (state ^ (state >> 30U)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27U)) * 0x94d049bb133111eb;
    state ^= state >> 31U;
  }
  return state;
}

}  // namespace moe_gpt
