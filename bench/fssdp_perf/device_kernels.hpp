// SPDX-License-Identifier: Apache-2.0
/// What sums and copies on devices: a source that nvcc compiles, or one that stands for it, has it.
#pragma once

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace perf {

[[nodiscard]] fssdp::device_kernels device_kernels();

}  // namespace perf
