// SPDX-License-Identifier: Apache-2.0
/// A codec of a user: blocks of 100 elements, an option, and payloads with room to spare.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "fssdp/codec/codec.hpp"

namespace support {

/// 400 bytes for 100 elements: a scale, and two bytes per element in steps of scale / levels, with
/// two bytes between them. For finite numbers.
struct hundreds_codec {
  static constexpr std::size_t block_elements = 100;
  int levels = 1000;

  [[nodiscard]] static std::size_t encoded_bytes(std::size_t elements) {
    return elements * 4 + (elements + 99) / 100 * sizeof(float);
  }
  void encode(std::span<float const> from, std::span<std::byte> payload) const noexcept {
    std::ranges::fill(payload, std::byte{0x77});
    auto* out = payload.data();
    for (; !from.empty(); from = from.subspan(std::min(block_elements, from.size()))) {
      auto const block = from.first(std::min(block_elements, from.size()));
      auto largest = 0.0F;
      for (auto const value : block) largest = std::max(largest, std::abs(value));
      std::memcpy(out, &largest, sizeof largest);
      out += sizeof largest;
      for (auto const value : block) {
        auto const ratio = largest == 0 ? 0.0F : value / largest;
        auto const code =
            static_cast<std::int16_t>(std::lround(ratio * static_cast<float>(levels)));
        std::memcpy(out, &code, sizeof code);
        out += 4;
      }
    }
  }
  void decode(std::span<std::byte const> payload, std::span<float> to) const noexcept {
    auto const* in = payload.data();
    for (; !to.empty(); to = to.subspan(std::min(block_elements, to.size()))) {
      auto largest = 0.0F;
      std::memcpy(&largest, in, sizeof largest);
      in += sizeof largest;
      for (auto& value : to.first(std::min(block_elements, to.size()))) {
        auto code = std::int16_t{0};
        std::memcpy(&code, in, sizeof code);
        in += 4;
        value = largest * (static_cast<float>(code) / static_cast<float>(levels));
      }
    }
  }
  [[nodiscard]] double error_bound(float, float largest) const noexcept {
    return static_cast<double>(largest) * (0.5 / levels + 0x1p-20);
  }
};

static_assert(fssdp::codec<hundreds_codec>);

}  // namespace support
