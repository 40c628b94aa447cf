// SPDX-License-Identifier: Apache-2.0
/// The kernels for sums, conversions, codecs and copies, for nvcc (with --expt-relaxed-constexpr).
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace fssdp {

namespace detail {

inline constexpr unsigned block_threads = 256;
/// Blocks per multiprocessor. With 6 a thread has 40 registers, enough to read 64 bytes before it
/// uses the first of them; with 4 it has 64, for kernels that hold more. Without this bound, the
/// compiler chooses to read less at a time.
template <class Kernel>
inline constexpr unsigned blocks_at_once = Kernel::held_bytes < 80 ? 6 : 4;
inline constexpr std::size_t most_blocks = 8192;  // enough to fill any device; threads then loop

/// Runs every step of a kernel, each in a thread.
template <class Kernel>
__global__ void __launch_bounds__(block_threads, blocks_at_once<Kernel>)
    run_steps(__grid_constant__ Kernel const kernel, std::size_t steps) {
  auto const stride = std::size_t{gridDim.x} * blockDim.x;
  for (auto step = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; step < steps; step += stride)
    kernel(step);
}

/// Launches a device function, and returns the error of this launch only: cudaGetLastError would
/// also report errors of earlier calls, which the caller may have handled.
template <class... Parameters>
[[nodiscard]] cudaError_t enqueue(cudaStream_t stream, std::size_t blocks, unsigned threads,
                                  void (*function)(Parameters...),
                                  std::remove_const_t<Parameters> const&... arguments) {
  auto config = cudaLaunchConfig_t{};
  config.gridDim = dim3{static_cast<unsigned>(blocks)};
  config.blockDim = dim3{threads};
  config.stream = stream;
  return cudaLaunchKernelEx(&config, function, Parameters{arguments}...);
}

template <class Kernel>
[[nodiscard]] cudaError_t launch(cudaStream_t stream, Kernel const& kernel) {
  auto const steps = kernel.steps();
  if (steps == 0) return cudaSuccess;
  auto const blocks = std::min((steps + block_threads - 1) / block_threads, most_blocks);
  return enqueue(stream, blocks, block_threads, run_steps<Kernel>, kernel, steps);
}

template <class Work>
[[nodiscard]] cudaError_t launch_for(cudaStream_t stream, Work const& work) {
  auto code = cudaSuccess;
  with_kernel(work, [&](auto const& kernel) { code = launch(stream, kernel); });
  return code;
}

/// Copies every tile, each by a block of this many threads.
template <class Kernel, unsigned Threads>
__global__ void __launch_bounds__(Threads)
    run_tiles(__grid_constant__ Kernel const kernel, std::size_t tiles) {
  for (auto tile = std::size_t{blockIdx.x}; tile < tiles; tile += gridDim.x)
    kernel(tile, threadIdx.x, Threads);
}
inline constexpr unsigned threads_of_few_blocks = 1024;  // few blocks need more reads in flight
[[nodiscard]] inline cudaError_t launch_copies(cudaStream_t stream, device_copies const& copies) {
  auto code = cudaSuccess;
  with_kernel(copies, [&]<class Kernel>(Kernel const& kernel) {
    auto const tiles = kernel.tiles();
    if (tiles == 0) return;
    code = copies.most_blocks != 0
               ? enqueue(stream, std::min(tiles, copies.most_blocks), threads_of_few_blocks,
                         run_tiles<Kernel, threads_of_few_blocks>, kernel, tiles)
               : enqueue(stream, std::min(tiles, most_blocks), block_threads,
                         run_tiles<Kernel, block_threads>, kernel, tiles);
  });
  return code;
}

/// Loads a function, by querying its attributes.
template <class... Parameters>
[[nodiscard]] cudaError_t load(void (*function)(Parameters...)) {
  auto attributes = cudaFuncAttributes{};
  return cudaFuncGetAttributes(&attributes, function);
}
/// Loads the kernels for every pair of element types, and for every code of payloads.
[[nodiscard]] inline cudaError_t load_all() {
  auto code = cudaSuccess;
  for (auto const count : {std::size_t{1}, std::size_t{64}, device_copies::most}) {
    auto copies = device_copies{};
    copies.count = count;
    with_kernel(copies, [&]<class Kernel>(Kernel const&) {
      if (code == cudaSuccess) code = load(run_tiles<Kernel, block_threads>);
      if (code == cudaSuccess) code = load(run_tiles<Kernel, threads_of_few_blocks>);
    });
  }
  auto const load_steps = [&]<class Kernel>(Kernel const&) {
    if (code == cudaSuccess) code = load(run_steps<Kernel>);
  };
  for (auto const from : all_dtypes)
    for (auto const to : all_dtypes) {
      for (auto const kind : {device_sums::kind::partial, device_sums::kind::payload}) {
        auto sums = device_sums{};
        sums.partials = from;
        sums.results = to;
        sums.begin(nullptr, 0);
        sums.add({nullptr, kind});
        with_kernel(sums, load_steps);
      }
      auto conversions = device_conversions{};
      conversions.from_type = from;
      conversions.to_type = to;
      with_kernel(conversions, load_steps);
    }
  for (auto const code : all_payload_codes)
    for (auto const from : all_dtypes) {
      with_kernel(device_encoding{.code = code, .from_type = from}, load_steps);
      auto of_sum = device_sum_encoding{};
      of_sum.sum.partials = from;
      of_sum.sum.code = code;
      with_kernel(of_sum, load_steps);
    }
  return code;
}

}  // namespace detail

/// The kernels of this library, for any pair of element types.
/// @cost one launch for each encoding, and one for all of device_sums, device_conversions or
///       device_copies. Every element is read and written once, 16 bytes at a time where all
///       addresses allow it, codes of payloads 4 or 8. Payloads among the operands of a sum are
///       decoded in registers
[[nodiscard]] inline device_kernels cuda_kernels() {
  return {.sum = detail::launch_for<device_sums>,
          .convert = detail::launch_for<device_conversions>,
          .copy = detail::launch_copies,
          .encode = detail::launch_for<device_encoding>,
          .encode_sum = detail::launch_for<device_sum_encoding>,
          .load = detail::load_all};
}

}  // namespace fssdp
