// SPDX-License-Identifier: Apache-2.0
/// The way between memory of a device and files.
#pragma once

#include <cstddef>
#include <span>

namespace fssdp {

/// Two equal buffers of the host's, from and into which a device copies while the host works on the
/// other one: what is larger than both passes through them. cuda_staging is one for CUDA.
/// All copies are in the order in which they are begun. One thread at a time uses it.
class device_staging {
 public:
  device_staging() = default;
  device_staging(device_staging const&) = delete;
  device_staging& operator=(device_staging const&) = delete;
  virtual ~device_staging() = default;

  /// @param which 0 or 1
  [[nodiscard]] virtual std::span<std::byte> buffer(int which) = 0;
  /// Begins to copy memory of the device into a buffer, from its byte `first` on.
  /// @pre it has room for them
  virtual void begin_read(int which, std::size_t first, std::span<std::byte const> from) = 0;
  /// Begins to copy what is in a buffer, from its byte `first` on, into memory of the device.
  virtual void begin_write(int which, std::size_t first, std::span<std::byte> to) = 0;
  /// Returns when all copies of a buffer that have been begun are made.
  virtual void await(int which) = 0;
};

}  // namespace fssdp
