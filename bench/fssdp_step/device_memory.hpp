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
  /// The same numbers for the host, until something is asked for again. Waits until they are there.
  template <class T>
  [[nodiscard]] std::span<T const> on_host(std::span<T const> numbers) {
    return {reinterpret_cast<T const*>(bytes_on_host(std::as_bytes(numbers)).data()),
            numbers.size()};
  }

 private:
  [[nodiscard]] virtual std::span<std::byte const> bytes_on_host(
      std::span<std::byte const> bytes) = 0;
};

}  // namespace step
