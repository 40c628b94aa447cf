// SPDX-License-Identifier: Apache-2.0
/// What sums, converts, encodes and copies on a device, as a host compiler sees it: functions that
/// launch.
#pragma once

#include <cuda_runtime_api.h>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_copies.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp {

/// A communicator whose memory is a device's is given these, from cuda_kernels() in a source that
/// nvcc compiles (cuda_kernels.cuh). Each enqueues its work on the stream and returns what CUDA
/// says about that; it neither allocates nor waits.
struct device_kernels {
  cudaError_t (*sum)(cudaStream_t stream, device_sums const& sum) = nullptr;  ///< decodes, too
  cudaError_t (*convert)(cudaStream_t stream, device_conversions const& conversion) = nullptr;
  cudaError_t (*copy)(cudaStream_t stream, device_copies const& copies) = nullptr;
  cudaError_t (*encode)(cudaStream_t stream, device_encoding const& encoding) = nullptr;
  cudaError_t (*encode_sum)(cudaStream_t stream, device_sum_encoding const& of) = nullptr;
  /// Brings them all to the current device. CUDA does that when a kernel is first launched, if
  /// nobody has before, and may wait for the device then: in vain if that waits for other ranks.
  cudaError_t (*load)() = nullptr;
};

namespace detail {

/// What every communicator does when it is made.
/// @throws transport_error, out_of_memory
inline void load_kernels(device_kernels const& kernels, rank_id me) {
  if (kernels.load != nullptr)
    cuda_require_memory(kernels.load(), me, 0, "kernels", "cudaFuncGetAttributes");
}

}  // namespace detail

}  // namespace fssdp
