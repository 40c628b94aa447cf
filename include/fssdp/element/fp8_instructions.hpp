// SPDX-License-Identifier: Apache-2.0
/// Conversions of 8-bit floats by instructions of NVIDIA's devices, from compute capability 8.9 on:
/// a loop over bits takes several times as long as to read them.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define FSSDP_HAS_FP8_INSTRUCTIONS 1

#include <cstdint>

namespace fssdp::detail {

struct e4m3_format;
struct e5m2_format;

/// By way of fp16, which has room for all of them. The bits of a NaN are the device's.
template <class Format>
__device__ inline float fp8_to_float(std::uint8_t bits);
/// To nearest, ties to even; what is too large, infinity too, becomes the largest finite number.
template <class Format>
__device__ inline std::uint8_t fp8_from_finite(float value);

__device__ inline float float_of_fp16(std::uint32_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<std::uint16_t>(bits)));
  return value;
}
template <>
__device__ inline float fp8_to_float<e4m3_format>(std::uint8_t bits) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<std::uint16_t>(bits)));
  return float_of_fp16(pair);
}
template <>
__device__ inline float fp8_to_float<e5m2_format>(std::uint8_t bits) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(static_cast<std::uint16_t>(bits)));
  return float_of_fp16(pair);
}
template <>
__device__ inline std::uint8_t fp8_from_finite<e4m3_format>(float value) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
  return static_cast<std::uint8_t>(pair);
}
template <>
__device__ inline std::uint8_t fp8_from_finite<e5m2_format>(float value) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
  return static_cast<std::uint8_t>(pair);
}

}  // namespace fssdp::detail

#else
#define FSSDP_HAS_FP8_INSTRUCTIONS 0
#endif
