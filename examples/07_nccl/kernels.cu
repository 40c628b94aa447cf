// SPDX-License-Identifier: Apache-2.0
// The part of 07_nccl that nvcc compiles: the library's sums and conversions.
#include "fssdp/comm/cuda/cuda_kernels.cuh"

fssdp::device_kernels kernels() { return fssdp::cuda_kernels(); }
