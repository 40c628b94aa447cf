// SPDX-License-Identifier: Apache-2.0
/// How a block of floats becomes 8-bit integers and one step.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "fssdp/element/choose.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/rounded.hpp"

namespace fssdp::detail {

/// Steps from -127 to 127; -128 stands for what is not finite.
struct int8_rule {
  [[nodiscard]] FSSDP_HOST_DEVICE static float scale(float largest) noexcept {
    // 17 significant bits: multiplied by a code of 7 bits they are a float, nothing is rounded.
    constexpr auto dropped = std::uint32_t{0x7f};
    auto const bits = std::bit_cast<std::uint32_t>(quotient(largest, 127)) + dropped;
    return std::clamp(std::bit_cast<float>(bits & ~dropped), 0x1p-126F, float{last_scale});
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static std::uint8_t code(float x) noexcept {
    // The last place of this float is 1: the addition rounds, ties to even.
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
  /// Half a step; the rest is for the reciprocal and the multiplication, which round.
  [[nodiscard]] static double error(double /*magnitude*/) noexcept { return 0.5 + 0x1p-16; }

 private:
  static constexpr std::uint32_t not_finite = 0x80;
  /// The greatest of 17 bits that makes a float when multiplied by 127.
  static constexpr float last_scale = 0x1.0204p121F;
};

}  // namespace fssdp::detail
