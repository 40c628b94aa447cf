// SPDX-License-Identifier: Apache-2.0
/// Functions for both host and device.
#pragma once

/// Marks a function that kernels call, too; empty if there are no kernels.
#ifdef __CUDACC__
#define FSSDP_HOST_DEVICE __host__ __device__
#else
#define FSSDP_HOST_DEVICE
#endif
