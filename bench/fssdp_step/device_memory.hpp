// SPDX-License-Identifier: Apache-2.0
/// Memory that a device computes in, and what is written there and looked at for checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

namespace step {

class device_memory {
 public:
  device_memory() = default;
  device_memory(device_memory const&) = delete;
  device_memory& operator=(device_memory const&) = delete;
  virtual ~device_memory() = default;

  /// Where blocks of it come from, and go back to. What is in them is not known at first.
  [[nodiscard]] virtual std::pmr::memory_resource* resource() = 0;

  /// These take effect in the order in which the device computes.
  virtual void fill(std::span<float> numbers, float value) = 0;
  virtual void fill(std::span<std::uint8_t> bytes, std::uint8_t value) = 0;
  /// Every number becomes larger.
  virtual void add(std::span<float> numbers, float value) = 0;
  /// Copies to the host, and waits until it is there.
  virtual void read(void const* from, std::span<std::byte> to) = 0;

  template <class T>
  [[nodiscard]] T value(T const* at) {
    auto found = T{};
    read(at, std::as_writable_bytes(std::span{&found, 1}));
    return found;
  }
};

}  // namespace step
