// SPDX-License-Identifier: Apache-2.0
/// Which calls of a rank on a device still do something after a failure.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <span>
#include <string>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_sums.hpp"

namespace support {

/// Names of calls that have not been refused, and of those that have written: none, if all is well.
template <fssdp::device_communicator Comm>
[[nodiscard]] std::string work_after_failure(Comm& comm) {
  auto const memory = fssdp::cuda_memory{2 * sizeof(float)};
  auto const all = memory.bytes();
  auto const from = all.first(sizeof(float));
  auto const to = all.last(sizeof(float));
  auto const stream = fssdp::make_cuda_stream();
  cudaMemsetAsync(all.data(), 1, from.size(), stream.get());
  cudaMemsetAsync(to.data(), 0, to.size(), stream.get());
  cudaStreamSynchronize(stream.get());
  auto done = std::string{};
  auto const refuses = [&](char const* name, auto call) {
    try {
      call();
      done += std::string{name} + " ";
    } catch (fssdp::poisoned_stream const&) {
    }
    auto now = std::array<std::byte, sizeof(float)>{};
    cudaStreamSynchronize(comm.stream());
    cudaMemcpyAsync(now.data(), to.data(), now.size(), cudaMemcpyDefault, stream.get());
    cudaStreamSynchronize(stream.get());
    if (now != decltype(now){}) done += std::string{name} + " has written ";
  };
  refuses("sum", [&] {
    auto sums = fssdp::device_sums{};
    sums.begin(to.data(), 1);
    sums.add({from.data()});
    comm.sum(sums);
  });
  refuses("convert", [&] {
    auto conversions = fssdp::device_conversions{};
    conversions.add({from.data(), to.data(), 1});
    comm.convert(conversions);
  });
  refuses("copy", [&] { comm.copy(to, from); });
  refuses("allocate", [&] { comm.free(comm.allocate(from.size())); });
  return done;
}

}  // namespace support
