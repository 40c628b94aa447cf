// SPDX-License-Identifier: Apache-2.0
/// Floats as bf16 by an instruction of NVIDIA's devices, from compute capability 8.0 on: it takes
/// two, where each by itself takes several.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FSSDP_HAS_BF16_INSTRUCTIONS 1

#include <cstdint>

namespace fssdp::detail {

/// The first of two is in the lower half of a word.
struct float_pair {
  float first;
  float second;
};

/// To nearest, ties to even. The bits of a NaN are the device's.
__device__ inline std::uint32_t bf16_of_number(float_pair of) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(of.second), "f"(of.first));
  return pair;
}

}  // namespace fssdp::detail

#else
#define FSSDP_HAS_BF16_INSTRUCTIONS 0
#endif
