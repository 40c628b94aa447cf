// SPDX-License-Identifier: Apache-2.0
/// Functions that both a host and a device can call.
#pragma once

/// Stands in front of a function that kernels call, too; nothing where there are no kernels.
#ifdef __CUDACC__
#define FSSDP_HOST_DEVICE __host__ __device__
#else
#define FSSDP_HOST_DEVICE
#endif
