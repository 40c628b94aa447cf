// SPDX-License-Identifier: Apache-2.0
/// The same kernels as on a device, in a loop.
#include "gpu_double/gpu_double.hpp"

namespace gpu_double {
namespace {

template <class Work>
cudaError_t loop_over(cudaStream_t stream, Work const& work) {
  auto code = cudaSuccess;
  fssdp::detail::with_kernel(work, [&](auto const& kernel) {
    code = enqueue(stream, [kernel] {
      for (std::size_t step = 0; step < kernel.steps(); ++step) kernel(step);
    });
  });
  return code;
}

}  // namespace

fssdp::device_kernels looping_kernels() {
  return {.sum = loop_over<fssdp::device_sum>, .convert = loop_over<fssdp::device_conversion>};
}

}  // namespace gpu_double
