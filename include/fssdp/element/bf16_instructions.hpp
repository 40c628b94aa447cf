// SPDX-License-Identifier: Apache-2.0
/// Conversion of floats to bf16 by an instruction of NVIDIA GPUs of compute capability 8.0 and
/// later, which converts two numbers.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FSSDP_HAS_BF16_INSTRUCTIONS 1

#include <cstdint>

namespace fssdp::detail {

/// Two floats; the first one becomes the lower half of a word.
struct float_pair {
  float first;
  float second;
};

/// Rounds to nearest, ties to even. The bits of a NaN are those of the device.
__device__ inline std::uint32_t bf16_of_number(float_pair of) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(of.second), "f"(of.first));
  return pair;
}

}  // namespace fssdp::detail

#else
#define FSSDP_HAS_BF16_INSTRUCTIONS 0
#endif
