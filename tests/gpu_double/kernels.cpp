// SPDX-License-Identifier: Apache-2.0
/// The same kernels as on a device, in a loop.
#include <atomic>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "gpu_double/gpu_double.hpp"

namespace gpu_double {
namespace {

std::mutex loaded_mutex;
std::set<int> loaded;  // devices that have the kernels

cudaError_t load() {
  auto device = 0;
  auto const code = cudaGetDevice(&device);
  auto const lock = std::scoped_lock{loaded_mutex};
  loaded.insert(device);
  return code;
}
void check_loaded(cudaStream_t stream) {
  auto const device = device_of(stream);
  {
    auto const lock = std::scoped_lock{loaded_mutex};
    if (loaded.contains(device)) return;
  }
  report("a kernel is loaded when it is launched on device " + std::to_string(device));
}

std::atomic<int> launched = 0;

template <class Work>
cudaError_t loop_over(cudaStream_t stream, Work const& work) {
  auto const uncounted = not_counted{};
  ++launched;
  check_loaded(stream);
  auto code = cudaSuccess;
  fssdp::detail::with_kernel(work, [&](auto const& kernel) {
    code = enqueue(stream, [kernel] {
      for (std::size_t step = 0; step < kernel.steps(); ++step) kernel(step);
    });
  });
  return code;
}

void check_operands(cudaStream_t stream, fssdp::device_sums const& of) {
  for (std::size_t i = 0; i < of.operand_count; ++i) check_access(stream, of.operands[i]);
}
cudaError_t sum(cudaStream_t stream, fssdp::device_sums const& of) {
  check_operands(stream, of);
  for (std::size_t i = 0; i < of.count; ++i) check_access(stream, of.sums[i].out);
  return loop_over(stream, of);
}
template <class Encoding>
void check_results(cudaStream_t stream, Encoding const& of) {
  if (of.residual != nullptr) check_access(stream, of.residual);
  check_access(stream, of.payload);
}
cudaError_t encode(cudaStream_t stream, fssdp::device_encoding const& of) {
  check_access(stream, of.from);
  check_results(stream, of);
  return loop_over(stream, of);
}
cudaError_t encode_sum(cudaStream_t stream, fssdp::device_sum_encoding const& of) {
  check_operands(stream, of.sum);
  check_results(stream, of);
  return loop_over(stream, of);
}
cudaError_t convert(cudaStream_t stream, fssdp::device_conversions const& of) {
  for (auto const& [from, to, elements] : std::span{of.conversions}.first(of.count)) {
    check_access(stream, from);
    check_access(stream, to);
  }
  return loop_over(stream, of);
}
cudaError_t copy(cudaStream_t stream, fssdp::device_copies const& of) {
  auto const uncounted = not_counted{};
  ++launched;
  check_loaded(stream);
  for (std::size_t i = 0; i < of.count; ++i) {
    check_access(stream, of.copies[i].to);
    check_access(stream, of.copies[i].from);
    count_copied(of.copies[i].bytes);
  }
  auto code = cudaSuccess;
  fssdp::detail::with_kernel(of, [&](auto const& kernel) {
    code = enqueue(stream, [kernel] {
      // Last things first: a device has no order among them.
      for (auto tile = kernel.tiles(); tile-- != 0;) kernel(tile, 0, 1);
    });
  });
  return code;
}

}  // namespace

fssdp::device_kernels kernels() {
  return {.sum = sum,
          .convert = convert,
          .copy = copy,
          .encode = encode,
          .encode_sum = encode_sum,
          .load = load};
}
int launches() { return launched; }
void unload_kernels() {
  auto const lock = std::scoped_lock{loaded_mutex};
  loaded.clear();
}

}  // namespace gpu_double
