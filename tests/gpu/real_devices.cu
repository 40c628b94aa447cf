// SPDX-License-Identifier: Apache-2.0
/// What tests ask the double for, where there is none: the real devices, and the real kernels. What
/// only a double can do is not here, and tests that need it are not built.
#include "fssdp/comm/cuda/cuda_kernels.cuh"
#include "gpu_double/gpu_double.hpp"

namespace gpu_double {
namespace {

settings const& real_settings() {
  static auto const found = [] {
    auto of = settings{};
    cudaGetDeviceCount(&of.devices);
    return of;
  }();
  return found;
}

}  // namespace

void reset(settings const&) {}
settings const& current() { return real_settings(); }
std::vector<std::string> violations() { return {}; }
fssdp::device_kernels kernels() { return fssdp::cuda_kernels(); }

}  // namespace gpu_double
