// SPDX-License-Identifier: Apache-2.0
/// Options of ranks that are devices of one process.
#pragma once

#include <chrono>

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace fssdp {

/// What moves the bytes of an exchange.
enum class copied_by {
  automatic,  ///< kernels if ranks share devices and kernels are given
  engines,    ///< between devices they leave multiprocessors to other work; within one, CUDA takes
              ///< 4 us for each copy, one after the other (measured on an H200)
  kernels  ///< one launch for up to 128 messages: better for many small ones, and within a device
};

/// The ranks, their devices, and how data is copied.
struct peer_options {
  int ranks = 0;    ///< 0: one for each device
  int devices = 0;  ///< 0: all. Rank r is on device r modulo this number
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  ///< for every wait
  device_kernels kernels = {};
  copied_by copies = copied_by::automatic;
  /// The number of thread blocks of kernels that copy, each on its own multiprocessor; 0: as many
  /// as fill the device. A small number copies more slowly, and leaves the other multiprocessors to
  /// other work.
  int copy_blocks = 0;
};

}  // namespace fssdp
