// SPDX-License-Identifier: Apache-2.0
/// The rule that encodes a block of floats as 8-bit floats and a power of two.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "fssdp/element/fp8.hpp"
#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// The scale is a power of two, so scaling rounds only numbers below all codes. It is the smallest
/// such that no element exceeds the largest fp8; at least 2^-126 (below, the reciprocal would
/// overflow), and at most such that scale times the largest fp8 is a float.
template <class Fp8>
struct fp8_rule {
  [[nodiscard]] FSSDP_HOST_DEVICE static float scale(float largest) noexcept {
    constexpr auto end = std::bit_cast<std::int32_t>(static_cast<float>(Fp8::largest()));
    constexpr auto mantissa = std::int32_t{0x007fffff};
    constexpr auto exponent_of_end = (end >> 23) - 127;
    // The exponent of the largest element, one more if its mantissa is greater than that of the
    // largest fp8.
    auto const needed =
        (std::bit_cast<std::int32_t>(largest) + (mantissa - (end & mantissa))) >> 23;
    return std::bit_cast<float>(std::clamp(needed - exponent_of_end, 1, 254 - exponent_of_end)
                                << 23);
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static std::uint8_t code(float x) noexcept {
    return Fp8{x}.bits();
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static float value(std::uint8_t code) noexcept {
    return static_cast<float>(Fp8::from_bits(code));
  }
  [[nodiscard]] static double error(double magnitude) noexcept {
    constexpr auto relative = 1.0 / (1 << Fp8::significant_bits());
    constexpr auto half_a_step = static_cast<float>(Fp8::smallest()) / 2.0;
    auto const saturated = magnitude - static_cast<double>(static_cast<float>(Fp8::largest()));
    return std::max({magnitude * relative, half_a_step, saturated});
  }
};

}  // namespace fssdp::detail
