// SPDX-License-Identifier: Apache-2.0
/// The elements of a step of a kernel in another type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fssdp/element/bf16.hpp"
#include "fssdp/element/bf16_instructions.hpp"
#include "fssdp/element/converted.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/fp8.hpp"
#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

template <class T>
inline constexpr bool is_fp8 = false;
template <class Format>
inline constexpr bool is_fp8<fp8<Format>> = true;

/// Whether no infinity and no NaN is among them: of all at once, as a test of each takes longer than
/// to convert it.
template <std::size_t N>
[[nodiscard]] FSSDP_HOST_DEVICE bool are_finite(element_lanes<float, N> const& values) {
  auto zero = 0.0F;
  for (std::size_t i = 0; i < N; ++i) zero += values.at[i] * 0.0F;  // else NaN
  return zero == 0.0F;
}

#if FSSDP_HAS_FP8_INSTRUCTIONS
template <class Format, std::size_t N>
__device__ element_lanes<float, N> floats_of(element_lanes<fp8<Format>, N> const& values) {
  auto results = element_lanes<float, N>{};
  for (std::size_t i = 0; i < N; i += 2) {
    auto pair = std::uint16_t{};
    std::memcpy(&pair, values.at + i, sizeof(pair));
    auto const both = floats_of_fp8<Format>(pair);
    results.at[i] = both.first;
    results.at[i + 1] = both.second;
  }
  return results;
}
template <class Format, std::size_t N>
__device__ element_lanes<fp8<Format>, N> fp8_of(element_lanes<float, N> const& values) {
  auto results = element_lanes<fp8<Format>, N>{};
  for (std::size_t i = 0; i < N; i += 2) {
    auto const pair = fp8_of_finite<Format>({values.at[i], values.at[i + 1]});
    std::memcpy(static_cast<void*>(results.at + i), &pair, sizeof(pair));
  }
  if (!are_finite(values))
    for (std::size_t i = 0; i < N; ++i) results.at[i] = fp8<Format>{values.at[i]};
  return results;
}
#endif
#if FSSDP_HAS_BF16_INSTRUCTIONS
template <std::size_t N>
__device__ element_lanes<bf16, N> bf16_of(element_lanes<float, N> const& values) {
  auto results = element_lanes<bf16, N>{};
  for (std::size_t i = 0; i < N; i += 2) {
    auto const pair = bf16_of_number({values.at[i], values.at[i + 1]});
    std::memcpy(static_cast<void*>(results.at + i), &pair, sizeof(pair));
  }
  if (!are_finite(values))  // the bits of a NaN are not the device's
    for (std::size_t i = 0; i < N; ++i) results.at[i] = bf16{values.at[i]};
  return results;
}
#endif

/// As `converted` does one; on devices that can, 8-bit floats two at a time.
template <element To, element From, std::size_t N>
[[nodiscard]] FSSDP_HOST_DEVICE element_lanes<To, N> converted_lanes(
    element_lanes<From, N> const& values) {
#if FSSDP_HAS_BF16_INSTRUCTIONS
  if constexpr (std::is_same_v<To, bf16> && std::is_same_v<From, float> && N % 2 == 0) {
    return bf16_of(values);
  } else
#endif
#if FSSDP_HAS_FP8_INSTRUCTIONS
      if constexpr (std::is_same_v<From, To>) {
    return values;
  } else if constexpr (is_fp8<From>) {
    if constexpr (std::is_same_v<To, float>)
      return floats_of(values);
    else
      return converted_lanes<To>(floats_of(values));
  } else if constexpr (is_fp8<To> && std::is_same_v<From, float>) {
    return [&]<class Format>(std::type_identity<fp8<Format>>) {
      return fp8_of<Format>(values);
    }(std::type_identity<To>{});
  } else
#endif
  {
    auto results = element_lanes<To, N>{};
    for (std::size_t i = 0; i < N; ++i) results.at[i] = converted<To>(values.at[i]);
    return results;
  }
}

}  // namespace fssdp::detail
