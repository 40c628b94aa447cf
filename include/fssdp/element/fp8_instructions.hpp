// SPDX-License-Identifier: Apache-2.0
/// Conversions of 8-bit floats by instructions of NVIDIA GPUs of compute capability 8.9 and later,
/// which convert two numbers; integer operations would take several times as long as reading them.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define FSSDP_HAS_FP8_INSTRUCTIONS 1

#include <cstdint>

#include "fssdp/element/bf16_instructions.hpp"

namespace fssdp::detail {

struct e4m3_format;
struct e5m2_format;

__device__ inline float_pair floats_of_fp16(std::uint32_t pair) {
  float_pair of;
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
      : "=f"(of.first), "=f"(of.second)
      : "r"(pair));
  return of;
}
/// Through fp16, which represents all of them. The bits of a NaN are those of the device.
template <class Format>
__device__ inline float_pair floats_of_fp8(std::uint16_t pair);
template <>
__device__ inline float_pair floats_of_fp8<e4m3_format>(std::uint16_t pair) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"(pair));
  return floats_of_fp16(both);
}
template <>
__device__ inline float_pair floats_of_fp8<e5m2_format>(std::uint16_t pair) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(both) : "h"(pair));
  return floats_of_fp16(both);
}

/// Rounds to nearest, ties to even; numbers that are too large, and infinity, become the largest
/// finite number.
template <class Format>
__device__ inline std::uint16_t fp8_of_finite(float_pair of);
template <>
__device__ inline std::uint16_t fp8_of_finite<e4m3_format>(float_pair of) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(of.second), "f"(of.first));
  return pair;
}
template <>
__device__ inline std::uint16_t fp8_of_finite<e5m2_format>(float_pair of) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(of.second), "f"(of.first));
  return pair;
}

}  // namespace fssdp::detail

#else
#define FSSDP_HAS_FP8_INSTRUCTIONS 0
#endif
