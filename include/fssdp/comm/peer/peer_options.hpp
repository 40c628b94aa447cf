// SPDX-License-Identifier: Apache-2.0
/// What ranks that are devices of one process are made with.
#pragma once

#include <chrono>

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace fssdp {

/// What moves the bytes of an exchange.
enum class copied_by {
  automatic,  ///< kernels where ranks share devices and there are kernels, else engines
  engines,  ///< between devices they leave the processors to what computes; within one, CUDA takes
            ///< 4 us for each copy, one after the other (seen on an H200)
  kernels   ///< one launch for up to 128 messages: better for many small ones, and within a device
};

/// Ranks, devices, and how bytes get from one to another.
struct peer_options {
  int ranks = 0;    ///< 0: one for each device
  int devices = 0;  ///< 0: all that are there. Rank r is on device r modulo this
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  ///< for every wait
  device_kernels kernels = {};
  copied_by copies = copied_by::automatic;
  /// Of kernels that copy: so many blocks of threads, each on a multiprocessor of its own, or as
  /// many as fill the device (0). A few are slower, and leave the other multiprocessors to what
  /// computes.
  int copy_blocks = 0;
};

}  // namespace fssdp
