// SPDX-License-Identifier: Apache-2.0
/// The rule that encodes a block of floats as 8-bit integers and a step.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "fssdp/element/choose.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/rounded.hpp"

namespace fssdp::detail {

/// Codes from -127 to 127; -128 is the code of numbers that are not finite.
struct int8_rule {
  [[nodiscard]] FSSDP_HOST_DEVICE static float scale(float largest) noexcept {
    // 17 significant bits: the product with a 7-bit code is a float, so nothing is rounded.
    constexpr auto dropped = std::uint32_t{0x7f};
    auto const bits = std::bit_cast<std::uint32_t>(quotient(largest, 127)) + dropped;
    return std::clamp(std::bit_cast<float>(bits & ~dropped), 0x1p-126F, float{last_scale});
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static std::uint8_t code(float x) noexcept {
    // The last place of this float is 1, so the addition rounds, ties to even.
    constexpr auto shift = 0x1.8p23F;
    auto const sum = std::bit_cast<std::uint32_t>(x + shift) - std::bit_cast<std::uint32_t>(shift);
    auto const finite = (std::bit_cast<std::int32_t>(x) & 0x7fffffff) < 0x7f800000;
    return static_cast<std::uint8_t>(choose(finite, sum, not_finite));
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static float value(std::uint8_t code) noexcept {
    auto const number = static_cast<float>(static_cast<std::int8_t>(code));
    auto const nan = choose(code == not_finite, 0x7fc00000U, 0);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) | nan);
  }
  /// Half a step, and the rounding errors of the reciprocal and the multiplication.
  [[nodiscard]] static double error(double /*magnitude*/) noexcept { return 0.5 + 0x1p-16; }

 private:
  static constexpr std::uint32_t not_finite = 0x80;
  /// The largest number of 17 bits whose product with 127 is a float.
  static constexpr float last_scale = 0x1.0204p121F;
};

}  // namespace fssdp::detail
