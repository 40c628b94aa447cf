// SPDX-License-Identifier: Apache-2.0
/// The element types of torch: c10::BFloat16, c10::Half and, since torch 2.1, c10::Float8_e4m3fn
/// and c10::Float8_e5m2 can be used like the element types of this library.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#if __has_include(<c10/util/Float8_e4m3fn.h>)
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#endif

#include <string_view>

#include "fssdp/core/dtype.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

template <>
inline constexpr dtype dtype_of<c10::BFloat16> = dtype::bf16;
template <>
inline constexpr dtype dtype_of<c10::Half> = dtype::fp16;
#if __has_include(<c10/util/Float8_e4m3fn.h>)
template <>
inline constexpr dtype dtype_of<c10::Float8_e4m3fn> = dtype::e4m3;
template <>
inline constexpr dtype dtype_of<c10::Float8_e5m2> = dtype::e5m2;
#endif

/// The type of torch for a dtype.
/// @throws argument_error if this torch has no such type
[[nodiscard]] inline c10::ScalarType scalar_type_of(dtype type) {
  switch (type) {
    case dtype::fp32:
      return c10::ScalarType::Float;
    case dtype::fp64:
      return c10::ScalarType::Double;
    case dtype::bf16:
      return c10::ScalarType::BFloat16;
    case dtype::fp16:
      return c10::ScalarType::Half;
#if __has_include(<c10/util/Float8_e4m3fn.h>)
    case dtype::e4m3:
      return c10::ScalarType::Float8_e4m3fn;
    case dtype::e5m2:
      return c10::ScalarType::Float8_e5m2;
#else
    case dtype::e4m3:
    case dtype::e5m2:
      break;
#endif
  }
  throw argument_error{detail::text("dtype ", static_cast<int>(type),
                                    ": this torch has no such type; torch 2.1 and later have all")};
}

/// The dtype of a type of torch.
/// @param name the name of the tensor, for the error
/// @throws argument_error if there is no such dtype, for instance for integers
[[nodiscard]] inline dtype dtype_of_scalar_type(c10::ScalarType type, std::string_view name) {
  switch (type) {
    case c10::ScalarType::Float:
      return dtype::fp32;
    case c10::ScalarType::Double:
      return dtype::fp64;
    case c10::ScalarType::BFloat16:
      return dtype::bf16;
    case c10::ScalarType::Half:
      return dtype::fp16;
#if __has_include(<c10/util/Float8_e4m3fn.h>)
    case c10::ScalarType::Float8_e4m3fn:
      return dtype::e4m3;
    case c10::ScalarType::Float8_e5m2:
      return dtype::e5m2;
#endif
    default:
      throw argument_error{detail::text(name, ": a tensor of ", c10::toString(type),
                                        "; expected float, double, bfloat16, half, float8_e4m3fn "
                                        "or float8_e5m2")};
  }
}

}  // namespace fssdp
