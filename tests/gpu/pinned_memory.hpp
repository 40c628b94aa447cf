// SPDX-License-Identifier: Apache-2.0
/// Lets tests that were written for any memory run on a device: operator new gives what it can
/// read.
#pragma once

#include <cstddef>

namespace gpu_tests {

/// As long as it lives, operator new takes from one block of pinned memory of the host.
class pinned_memory {
 public:
  /// @throws std::runtime_error if there is not so much
  explicit pinned_memory(std::size_t bytes);
  pinned_memory(pinned_memory const&) = delete;
  pinned_memory& operator=(pinned_memory const&) = delete;
  /// What has been taken stays.
  ~pinned_memory();
};

}  // namespace gpu_tests
