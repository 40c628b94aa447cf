// SPDX-License-Identifier: Apache-2.0
/// Arithmetic with a rounding after each operation, on hosts and devices.
#pragma once

#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// a * b, rounded: device compilers must not fuse it with a following addition.
FSSDP_HOST_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
FSSDP_HOST_DEVICE inline double product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
/// a / b, correctly rounded, whatever the options of the device compiler.
FSSDP_HOST_DEVICE inline float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

}  // namespace fssdp::detail
