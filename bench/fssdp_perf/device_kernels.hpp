// SPDX-License-Identifier: Apache-2.0
/// Functions that sum and copy on devices, defined in a source that nvcc compiles, or in a double.
#pragma once

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace perf {

[[nodiscard]] fssdp::device_kernels device_kernels();

}  // namespace perf
