// SPDX-License-Identifier: Apache-2.0
// Stands for bench/fssdp_perf/device_kernels.cu: kernels that are loops, on as many devices as DEVICES
// in the environment says. What the real libraries would not forgive is told when the program ends.
#include "device_kernels.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu_double/gpu_double.hpp"

namespace {

void tell_violations() {
  for (auto const& violation : gpu_double::violations())
    std::fprintf(stderr, "violation: %s\n", violation.c_str());
}

[[nodiscard]] bool set_up_double() {
  auto const* const devices = std::getenv("DEVICES");
  gpu_double::reset(
      {.devices = devices == nullptr ? 8 : std::stoi(devices), .only_device_memory = true});
  return std::atexit(tell_violations) == 0;
}

}  // namespace

fssdp::device_kernels perf::device_kernels() {
  static auto const is_set_up = set_up_double();
  return is_set_up ? gpu_double::kernels() : fssdp::device_kernels{};
}
