// SPDX-License-Identifier: Apache-2.0
/// The memory of emulated devices: the host's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "device_memory.hpp"

namespace step {

class host_memory : public device_memory {
 public:
  [[nodiscard]] std::pmr::memory_resource* resource() override {
    return std::pmr::new_delete_resource();
  }
  void fill(std::span<float> numbers, float value) override { std::ranges::fill(numbers, value); }
  void fill(std::span<std::uint8_t> bytes, std::uint8_t value) override {
    std::ranges::fill(bytes, value);
  }
  void add(std::span<float> numbers, float value) override {
    for (auto& number : numbers) number += value;
  }

 private:
  [[nodiscard]] std::span<std::byte const> bytes_on_host(
      std::span<std::byte const> bytes) override {
    return bytes;
  }
};

}  // namespace step
