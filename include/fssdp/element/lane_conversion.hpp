// SPDX-License-Identifier: Apache-2.0
/// Conversion of the elements of a kernel step. On devices with the instructions, 8-bit floats and
/// bf16 are converted two at a time, from word to word; splitting words into bytes would take
/// longer than moving them.
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

/// Converts each by `converted`.
template <element To, element From, std::size_t N, std::size_t Access>
[[nodiscard]] FSSDP_HOST_DEVICE element_lanes<To, N> converted_lanes(
    element_lanes<From, N, Access> const& values) {
  auto results = element_lanes<To, N>{};
  for (std::size_t i = 0; i < N; ++i) results.at[i] = converted<To>(values.at[i]);
  return results;
}

/// Whether all are finite; tested together, as testing each would take longer than converting it.
template <std::size_t N>
[[nodiscard]] FSSDP_HOST_DEVICE bool are_finite(element_lanes<float, N> const& values) {
  float zero[2] = {};
  for (std::size_t i = 0; i < N; ++i) zero[i % 2] += values.at[i] * 0.0F;  // NaN if not finite
  return zero[0] == zero[1];
}

#if FSSDP_HAS_FP8_INSTRUCTIONS
template <class Format, class Words>
__device__ auto floats_of(std::type_identity<fp8<Format>>, Words const& words) {
  auto results = element_lanes<float, 4 * Words::count>{};
  for (std::size_t i = 0; i < Words::count; ++i) {
    auto const low = floats_of_fp8<Format>(static_cast<std::uint16_t>(words[i]));
    auto const high = floats_of_fp8<Format>(static_cast<std::uint16_t>(words[i] >> 16U));
    results.at[4 * i] = low.first;
    results.at[4 * i + 1] = low.second;
    results.at[4 * i + 2] = high.first;
    results.at[4 * i + 3] = high.second;
  }
  return results;
}
template <class Words, class Format>
__device__ Words words_of(element_lanes<float, 4 * Words::count> const& values,
                          std::type_identity<fp8<Format>>) {
  auto words = Words{};
  for (std::size_t i = 0; i < Words::count; ++i) {
    auto const* const four = values.at + 4 * i;
    words[i] = fp8_of_finite<Format>({four[0], four[1]}) |
               static_cast<std::uint32_t>(fp8_of_finite<Format>({four[2], four[3]})) << 16U;
  }
  if (!are_finite(values))
    for (std::size_t i = 0; i < Words::count; ++i) {
      words[i] = 0;
      for (std::size_t k = 0; k < 4; ++k)
        words[i] |= std::uint32_t{fp8<Format>{values.at[4 * i + k]}.bits()} << 8 * k;
    }
  return words;
}
#endif
#if FSSDP_HAS_BF16_INSTRUCTIONS
template <class Words>
__device__ Words words_of(element_lanes<float, 2 * Words::count> const& values,
                          std::type_identity<bf16>) {
  auto words = Words{};
  for (std::size_t i = 0; i < Words::count; ++i)
    words[i] = bf16_of_number({values.at[2 * i], values.at[2 * i + 1]});
  if (!are_finite(values))  // the bits of a NaN must not be those of the device
    for (std::size_t i = 0; i < Words::count; ++i)
      words[i] = bf16{values.at[2 * i]}.bits() | std::uint32_t{bf16{values.at[2 * i + 1]}.bits()}
                                                     << 16U;
  return words;
}
#endif

/// Elements that were read, converted to another type.
/// @tparam Lanes the type as which they were read
template <element To, class Lanes>
[[nodiscard]] FSSDP_HOST_DEVICE element_lanes<To, Lanes::count> unpacked(
    typename Lanes::packed const& words) {
#if FSSDP_HAS_FP8_INSTRUCTIONS
  using from = typename Lanes::value_type;
  if constexpr (is_fp8<from> && !std::is_same_v<from, To>) {
    auto const floats = floats_of(std::type_identity<from>{}, words);
    if constexpr (std::is_same_v<To, float>)
      return floats;
    else
      return converted_lanes<To>(floats);
  } else
#endif
  {
    return converted_lanes<To>(Lanes::of(words));
  }
}
/// Elements to be written, converted to another type.
/// @tparam Lanes the type as which they are written
template <class Lanes, element From>
[[nodiscard]] FSSDP_HOST_DEVICE typename Lanes::packed packed_as(
    element_lanes<From, Lanes::count> const& values) {
  using to = typename Lanes::value_type;
#if FSSDP_HAS_FP8_INSTRUCTIONS
  if constexpr (is_fp8<to> && std::is_same_v<From, float>)
    return words_of<typename Lanes::packed>(values, std::type_identity<to>{});
  else
#endif
#if FSSDP_HAS_BF16_INSTRUCTIONS
      if constexpr (std::is_same_v<to, bf16> && std::is_same_v<From, float>)
    return words_of<typename Lanes::packed>(values, std::type_identity<to>{});
  else
#endif
  {
    auto results = Lanes{};
    for (std::size_t i = 0; i < Lanes::count; ++i) results.at[i] = converted<to>(values.at[i]);
    return results.pack();
  }
}

}  // namespace fssdp::detail
