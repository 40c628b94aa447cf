// SPDX-License-Identifier: Apache-2.0
// The part of fssdp_perf that nvcc compiles: the library's sums and copies.
#include "device_kernels.hpp"
#include "fssdp/comm/cuda/cuda_kernels.cuh"

fssdp::device_kernels perf::device_kernels() { return fssdp::cuda_kernels(); }
