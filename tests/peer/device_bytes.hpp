// SPDX-License-Identifier: Apache-2.0
/// Memory of a device that tests of kernels set and read as bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_kernels.hpp"
#include "gpu_double/gpu_double.hpp"

namespace peer_tests {

/// Memory of a device with a stream; what is there comes and goes as bytes.
struct device_bytes {
  fssdp::cuda_memory memory;
  cudaStream_t stream;

  void set(std::span<std::byte const> from) const {
    cudaMemcpyAsync(memory.bytes().data(), from.data(), from.size(), cudaMemcpyHostToDevice,
                    stream);
    cudaStreamSynchronize(stream);
  }
  [[nodiscard]] std::vector<std::byte> get() const {
    auto all = std::vector<std::byte>(memory.bytes().size());
    cudaMemcpyAsync(all.data(), memory.bytes().data(), all.size(), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return all;
  }
};

/// What is in such memory after a kernel has worked on it.
/// @param launch launch(stream, begin) enqueues it for memory that begins there
template <class Launch>
[[nodiscard]] std::vector<std::byte> after_kernel(std::span<std::byte const> before,
                                                  Launch launch) {
  auto const stream = fssdp::make_cuda_stream();
  auto const device = device_bytes{fssdp::cuda_memory{before.size()}, stream.get()};
  device.set(before);
  REQUIRE(launch(stream.get(), device.memory.bytes().data()) == cudaSuccess);
  return device.get();
}

[[nodiscard]] inline fssdp::device_kernels loaded_kernels() {
  auto const kernels = gpu_double::kernels();
  REQUIRE(kernels.load() == cudaSuccess);
  return kernels;
}

}  // namespace peer_tests
