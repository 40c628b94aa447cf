// SPDX-License-Identifier: Apache-2.0
/// Element types, which are converted and summed: float, double, bf16, fp16, fp8 in two formats,
/// and types of other libraries with the same bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>

#include "fssdp/core/dtype.hpp"
#include "fssdp/element/bf16.hpp"
#include "fssdp/element/fp16.hpp"
#include "fssdp/element/fp8.hpp"

#if __cplusplus > 202002L && __has_include(<stdfloat>)
#include <stdfloat>
#endif

namespace fssdp {

// The types of <stdfloat>, if the compiler has them.
#ifdef __STDCPP_FLOAT16_T__
template <>
inline constexpr dtype dtype_of<std::float16_t> = dtype::fp16;
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <>
inline constexpr dtype dtype_of<std::bfloat16_t> = dtype::bf16;
#endif
#ifdef __STDCPP_FLOAT32_T__
template <>
inline constexpr dtype dtype_of<std::float32_t> = dtype::fp32;
#endif
#ifdef __STDCPP_FLOAT64_T__
template <>
inline constexpr dtype dtype_of<std::float64_t> = dtype::fp64;
#endif

/// The types that collectives convert and reductions sum: those with a dtype_of. (A gather without
/// conversion moves any trivially copyable type.) Numbers of fp8 have no scale here; the codecs add
/// one for each block.
template <class T>
concept element = std::same_as<decltype(dtype_of<T>), dtype const>;

/// Calls visit(std::type_identity<T>{}) for the library's type T of a dtype; returns its result.
template <class Visit>
constexpr decltype(auto) with_element(dtype type, Visit visit) {
  switch (type) {
    case dtype::fp32:
      return visit(std::type_identity<float>{});
    case dtype::fp64:
      return visit(std::type_identity<double>{});
    case dtype::bf16:
      return visit(std::type_identity<bf16>{});
    case dtype::fp16:
      return visit(std::type_identity<fp16>{});
    case dtype::e4m3:
      return visit(std::type_identity<fp8_e4m3>{});
    case dtype::e5m2:
      break;
  }
  return visit(std::type_identity<fp8_e5m2>{});
}

namespace detail {

/// The library's type of a dtype.
template <dtype Type>
struct type_of_dtype {
  using types = std::tuple<float, double, bf16, fp16, fp8_e4m3, fp8_e5m2>;  // in the order of dtype
  using type = std::tuple_element_t<static_cast<std::size_t>(Type), types>;
  static_assert(dtype_of<type> == Type);
};

/// Rejects a type that cannot have the bits of its dtype_of.
template <element T>
struct native_element {
  using type = typename type_of_dtype<dtype_of<T>>::type;
  static_assert(sizeof(T) == sizeof(type), "dtype_of<T>: T has another size than its dtype");
  static_assert(alignof(T) >= alignof(type), "dtype_of<T>: T is less aligned than its dtype");
  static_assert(std::is_trivially_copyable_v<T>, "dtype_of<T>: T is not trivially copyable");
};

/// The library's own type with the bits of T, in which all computation is done.
template <element T>
using native_element_t = typename native_element<T>::type;
/// Whether any of the types is of another library.
template <element... T>
inline constexpr bool any_foreign = !(std::is_same_v<T, native_element_t<T>> && ...);
/// A type of this library, or float or double.
template <class T>
concept native = element<T> && !any_foreign<T>;

/// Elements viewed as the library's own type.
template <class T>
requires element<std::remove_const_t<T>>
[[nodiscard]] auto as_native(std::span<T> elements) {
  using own = native_element_t<std::remove_const_t<T>>;
  using same_const = std::conditional_t<std::is_const_v<T>, own const, own>;
  return std::span<same_const>{reinterpret_cast<same_const*>(elements.data()), elements.size()};
}

}  // namespace detail

/// The type in which sums of T are formed: double for fp64, float for all others.
template <element T>
using accumulator_t = typename detail::type_of_dtype<accumulator_of(dtype_of<T>)>::type;

}  // namespace fssdp
