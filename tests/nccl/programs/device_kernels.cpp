// SPDX-License-Identifier: Apache-2.0
// Stands for bench/fssdp_perf/device_kernels.cu: kernels that are loops, on as many devices as DEVICES
// in the environment says. What the real libraries would not forgive is told when the program ends.
#include "device_kernels.hpp"

#include "gpu_double/gpu_double.hpp"
#include "gpu_double/set_up_double.hpp"

fssdp::device_kernels perf::device_kernels() {
  static auto const is_set_up = gpu_double::set_up_double();
  return is_set_up ? gpu_double::kernels() : fssdp::device_kernels{};
}
