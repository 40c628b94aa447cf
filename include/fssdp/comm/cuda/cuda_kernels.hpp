// SPDX-License-Identifier: Apache-2.0
/// The kernels for sums, conversions, codecs and copies, as functions that host compilers can call.
#pragma once

#include <cuda_runtime_api.h>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_copies.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp {

/// The kernels of a communicator of device memory, from cuda_kernels() in a source file that nvcc
/// compiles
/// (cuda_kernels.cuh). Each function enqueues its work on the stream and returns CUDA's error code;
/// it neither allocates nor waits.
struct device_kernels {
  cudaError_t (*sum)(cudaStream_t stream, device_sums const& sum) = nullptr;  ///< decodes, too
  cudaError_t (*convert)(cudaStream_t stream, device_conversions const& conversion) = nullptr;
  cudaError_t (*copy)(cudaStream_t stream, device_copies const& copies) = nullptr;
  cudaError_t (*encode)(cudaStream_t stream, device_encoding const& encoding) = nullptr;
  cudaError_t (*encode_sum)(cudaStream_t stream, device_sum_encoding const& of) = nullptr;
  /// Loads all kernels on the current device. Otherwise CUDA loads a kernel at its first launch,
  /// which may wait for the device: a deadlock if the device waits for other ranks.
  cudaError_t (*load)() = nullptr;
};

namespace detail {

/// To be called when a communicator is created.
/// @throws transport_error, out_of_memory
inline void load_kernels(device_kernels const& kernels, rank_id me) {
  if (kernels.load != nullptr)
    cuda_require_memory(kernels.load(), me, 0, "kernels", "cudaFuncGetAttributes");
}

}  // namespace detail

}  // namespace fssdp
