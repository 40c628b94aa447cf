// SPDX-License-Identifier: Apache-2.0
/// Copies between device memory and files.
#pragma once

#include <cstddef>
#include <span>

namespace fssdp {

/// Two host buffers of equal size. A device copies from or to one while the host works on the
/// other, so that data larger than both can pass through them. cuda_staging implements it for CUDA.
/// Copies are made in the order in which they are begun. To be used by one thread at a time.
class device_staging {
 public:
  device_staging() = default;
  device_staging(device_staging const&) = delete;
  device_staging& operator=(device_staging const&) = delete;
  virtual ~device_staging() = default;

  /// @param which 0 or 1
  [[nodiscard]] virtual std::span<std::byte> buffer(int which) = 0;
  /// Begins to copy device memory into a buffer, at its byte `first`.
  /// @pre the buffer has room for it
  virtual void begin_read(int which, std::size_t first, std::span<std::byte const> from) = 0;
  /// Begins to copy the bytes of a buffer, from its byte `first` on, to device memory.
  virtual void begin_write(int which, std::size_t first, std::span<std::byte> to) = 0;
  /// Returns when all copies of a buffer have been made.
  virtual void await(int which) = 0;
};

}  // namespace fssdp
