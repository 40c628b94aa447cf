// SPDX-License-Identifier: Apache-2.0
/// A codec that the library does not know: blocks of 100 elements after a byte that counts them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

#include "fssdp/core/error.hpp"
#include "fssdp/element/fp16.hpp"

namespace support {

struct counted_fp16 {
  static constexpr std::size_t block_elements = 100;
  float scale = 1;  ///< a power of two

  [[nodiscard]] std::size_t encoded_bytes(std::size_t elements) const {
    fssdp::detail::require(elements <= std::numeric_limits<std::size_t>::max() / 4,
                           "counted_fp16: ", elements, " elements");
    return 2 * elements + (elements + block_elements - 1) / block_elements;
  }
  void encode(std::span<float const> from, std::span<std::byte> payload) const noexcept {
    auto* out = payload.data();
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (i % block_elements == 0)
        *out++ = static_cast<std::byte>(std::min(block_elements, from.size() - i));
      auto const code = fssdp::fp16{from[i] * scale};
      std::memcpy(out, &code, sizeof code);
      out += sizeof code;
    }
  }
  void decode(std::span<std::byte const> payload, std::span<float> to) const noexcept {
    auto const* in = payload.data();
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (i % block_elements == 0) ++in;
      auto code = fssdp::fp16{};
      std::memcpy(&code, in, sizeof code);
      to[i] = static_cast<float>(code) / scale;
      in += sizeof code;
    }
  }
  [[nodiscard]] double error_bound(float element, float /*largest*/) const {
    auto const scaled = std::abs(static_cast<double>(element)) * static_cast<double>(scale);
    if (scaled >= 65520) return std::numeric_limits<double>::infinity();
    return std::max(scaled * 0x1p-11, 0x1p-25) / static_cast<double>(scale);
  }
};

}  // namespace support
