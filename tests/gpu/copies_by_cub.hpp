// SPDX-License-Identifier: Apache-2.0
/// Copies by CUB, beside which the library's are measured.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "fssdp/element/device_copies.hpp"

namespace gpu_tests {

/// Brings the lists of copies to the device; what it returns enqueues them by
/// cub::DeviceMemcpy::Batched.
/// @pre the copies do not overlap
[[nodiscard]] std::function<void(cudaStream_t)> copies_by_cub(fssdp::device_copies const& copies);

}  // namespace gpu_tests
