// SPDX-License-Identifier: Apache-2.0
/// Arithmetic that is rounded where it stands, on hosts and devices alike.
#pragma once

#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// a * b, rounded. A device would not round what is added to something next.
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
/// a / b, rounded, whatever a device's compiler has been told about divisions.
FSSDP_HOST_DEVICE inline float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

}  // namespace fssdp::detail
