// SPDX-License-Identifier: Apache-2.0
/// Element types as values, for types that are known only at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fssdp {

/// An element type. e4m3 and e5m2 are the two formats of fp8.
enum class dtype : std::uint8_t { fp32, fp64, bf16, fp16, e4m3, e5m2 };

/// All of them, in the order of their values.
inline constexpr std::array all_dtypes = {dtype::fp32, dtype::fp64, dtype::bf16,
                                          dtype::fp16, dtype::e4m3, dtype::e5m2};

/// Whether a value is one of them; a cast number may not be.
[[nodiscard]] constexpr bool is_valid(dtype type) {
  return static_cast<std::size_t>(type) < all_dtypes.size();
}

/// The size of an element.
/// @pre is_valid(type)
[[nodiscard]] constexpr std::size_t bytes_of(dtype type) {
  constexpr auto sizes = std::array<std::size_t, all_dtypes.size()>{4, 8, 2, 2, 1, 1};
  return sizes[static_cast<std::size_t>(type)];
}
/// The type in which sums are formed: fp64 of fp64, fp32 of all others.
[[nodiscard]] constexpr dtype accumulator_of(dtype type) {
  return type == dtype::fp64 ? dtype::fp64 : dtype::fp32;
}
/// The name in messages.
/// @pre is_valid(type)
[[nodiscard]] constexpr std::string_view name_of(dtype type) {
  constexpr auto names = std::array<std::string_view, all_dtypes.size()>{
      "fp32", "fp64", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"};
  return names[static_cast<std::size_t>(type)];
}

namespace detail {

/// The type of dtype_of for types that are not elements.
struct no_dtype {};

}  // namespace detail

/// The dtype of an element type. A type of another library with the same bits becomes an element
/// type by one specialization, before it is used:
///
///     template <>
///     inline constexpr fssdp::dtype fssdp::dtype_of<c10::BFloat16> = fssdp::dtype::bf16;
///
/// Such a type is trivially copyable and has the size and the alignment of its dtype, which is
/// checked where it is used. It needs no arithmetic: all computation is in the library's own type
/// of these bits.
template <class T>
inline constexpr auto dtype_of = detail::no_dtype{};
template <>
inline constexpr dtype dtype_of<float> = dtype::fp32;
template <>
inline constexpr dtype dtype_of<double> = dtype::fp64;

}  // namespace fssdp
