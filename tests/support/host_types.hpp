// SPDX-License-Identifier: Apache-2.0
/// Element types as another library has them: bits without arithmetic.
#pragma once

#include <cstdint>

#include "fssdp/core/dtype.hpp"

namespace host {

struct alignas(2) bfloat16 {
  std::uint16_t x;
};
struct alignas(2) half {
  std::uint16_t x;
};
struct alignas(1) float8_e4m3 {
  std::uint8_t x;
};

}  // namespace host

template <>
inline constexpr fssdp::dtype fssdp::dtype_of<host::bfloat16> = fssdp::dtype::bf16;
template <>
inline constexpr fssdp::dtype fssdp::dtype_of<host::half> = fssdp::dtype::fp16;
template <>
inline constexpr fssdp::dtype fssdp::dtype_of<host::float8_e4m3> = fssdp::dtype::e4m3;
