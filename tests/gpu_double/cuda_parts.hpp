// SPDX-License-Identifier: Apache-2.0
/// Functions that the parts of CUDA's runtime share.
#pragma once

#include <cuda_runtime_api.h>

namespace gpu_double {

/// Whether it is one of the streams that are always there.
[[nodiscard]] bool is_default(cudaStream_t stream);
/// The implementation of a stream; of the default streams that of the current device.
[[nodiscard]] CUstream_st& queue_of(cudaStream_t stream);

/// Whether a graph that is captured breaks by this call; then it is reported.
[[nodiscard]] bool is_forbidden(char const* call);

/// Waits until nothing is on a stream any more, or on any stream of a device.
[[nodiscard]] cudaError_t synchronize(cudaStream_t stream);
void synchronize_device(int device);

}  // namespace gpu_double
