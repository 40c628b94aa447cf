// SPDX-License-Identifier: Apache-2.0
/// What sums, converts and copies on a device, as a host compiler sees it: functions that launch.
#pragma once

#include <cuda_runtime_api.h>

#include "fssdp/core/device_conversion.hpp"
#include "fssdp/core/device_copies.hpp"
#include "fssdp/core/device_sum.hpp"

namespace fssdp {

/// A communicator whose memory is a device's is given these, from cuda_kernels() in a source that
/// nvcc compiles (cuda_kernels.cuh). Each enqueues its work on the stream and returns what CUDA
/// says about that; it neither allocates nor waits.
struct device_kernels {
  cudaError_t (*sum)(cudaStream_t stream, device_sum const& sum) = nullptr;
  cudaError_t (*convert)(cudaStream_t stream, device_conversion const& conversion) = nullptr;
  cudaError_t (*copy)(cudaStream_t stream, device_copies const& copies) = nullptr;
};

}  // namespace fssdp
