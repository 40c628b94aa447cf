// SPDX-License-Identifier: Apache-2.0
/// How parameters and gradients travel: as they are, or coded in 16 bits.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/link_coding.hpp"
#include "fssdp/element/fp16.hpp"
#include "options.hpp"

namespace moe_gpt {

/// A codec of our own: every float as the nearest bf16, or as the nearest fp16 of `scale` times it.
/// fp16 has no room for the smallest gradients, a power of two makes it.
struct half_codec {
  static constexpr std::size_t block_elements = 1;
  wire type = wire::bf16;
  float scale = 1;  ///< of fp16

  [[nodiscard]] static std::size_t encoded_bytes(std::size_t elements) {
    return fssdp::bf16_codec::encoded_bytes(elements);
  }
  void encode(std::span<float const> from, std::span<std::byte> payload) const noexcept {
    if (type == wire::bf16) return fssdp::bf16_codec::encode(from, payload);
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto const code = fssdp::fp16{scale * from[i]};
      std::memcpy(payload.data() + 2 * i, &code, sizeof code);
    }
  }
  void decode(std::span<std::byte const> payload, std::span<float> to) const noexcept {
    if (type == wire::bf16) return fssdp::bf16_codec::decode(payload, to);
    for (std::size_t i = 0; i < to.size(); ++i) {
      auto code = fssdp::fp16{};
      std::memcpy(&code, payload.data() + 2 * i, sizeof code);
      to[i] = static_cast<float>(code) / scale;
    }
  }
  /// Of fp16 half a unit in the last place, or half a step of the smallest; from 65520 / scale on,
  /// infinity.
  [[nodiscard]] double error_bound(float element, float largest) const noexcept {
    if (type == wire::bf16) return fssdp::bf16_codec::error_bound(element, largest);
    auto const scaled = static_cast<double>(element) * static_cast<double>(scale);
    if (scaled >= 65520) return std::numeric_limits<double>::infinity();
    return (scaled * 0x1p-11 > 0x1p-25 ? scaled * 0x1p-11 : 0x1p-25) / static_cast<double>(scale);
  }
};

static_assert(fssdp::codec<half_codec>);

/// What is coded: parameters one way, gradients the other; by default nothing.
struct wire_coding {
  fssdp::link_coding gather = {};
  fssdp::link_coding reduce = {};
};

/// What a run sends in this type.
[[nodiscard]] inline wire_coding coded_as(wire type) {
  if (type == wire::fp32) return {};
  constexpr auto all = fssdp::link_class::all;
  return {.gather = fssdp::coded_links{half_codec{.type = type}, all},
          .reduce = fssdp::coded_links{half_codec{.type = type, .scale = 4096}, all}};
}

}  // namespace moe_gpt
