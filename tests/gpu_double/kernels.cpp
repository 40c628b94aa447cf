// SPDX-License-Identifier: Apache-2.0
/// The same kernels as on a device, in a loop.
#include "gpu_double/gpu_double.hpp"

namespace gpu_double {
namespace {

template <class Work>
cudaError_t loop_over(cudaStream_t stream, Work const& work) {
  auto const uncounted = not_counted{};
  auto code = cudaSuccess;
  fssdp::detail::with_kernel(work, [&](auto const& kernel) {
    code = enqueue(stream, [kernel] {
      for (std::size_t step = 0; step < kernel.steps(); ++step) kernel(step);
    });
  });
  return code;
}

cudaError_t sum(cudaStream_t stream, fssdp::device_sum const& of) {
  for (std::size_t i = 0; i < of.count; ++i) check_access(stream, of.operands[i].data);
  check_access(stream, of.out);
  return loop_over(stream, of);
}
cudaError_t convert(cudaStream_t stream, fssdp::device_conversion const& of) {
  check_access(stream, of.from);
  check_access(stream, of.to);
  return loop_over(stream, of);
}
cudaError_t copy(cudaStream_t stream, fssdp::device_copies const& of) {
  auto const uncounted = not_counted{};
  for (std::size_t i = 0; i < of.count; ++i) {
    check_access(stream, of.copies[i].to);
    check_access(stream, of.copies[i].from);
    count_copied(of.copies[i].bytes);
  }
  return enqueue(stream, [kernel = fssdp::detail::copy_kernel{of}] {
    for (std::size_t tile = 0; tile < kernel.tiles(); ++tile) kernel(tile, 0, 1);
  });
}

}  // namespace

fssdp::device_kernels looping_kernels() { return {.sum = sum, .convert = convert, .copy = copy}; }

}  // namespace gpu_double
