// SPDX-License-Identifier: Apache-2.0
/// How parameters and gradients travel: as they are, or coded in 16 bits.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/element/fp16.hpp"
#include "fssdp/runtime/wire_coding.hpp"

namespace moe_gpt {

/// A codec of our own: every float as the nearest fp16 of `scale` times it. fp16 has no room for
/// the smallest gradients, a power of two makes it.
struct fp16_codec {
  static constexpr std::size_t block_elements = 1;
  float scale = 1;

  [[nodiscard]] static std::size_t encoded_bytes(std::size_t elements) { return 2 * elements; }
  void encode(std::span<float const> from, std::span<std::byte> payload) const noexcept {
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto const code = fssdp::fp16{scale * from[i]};
      std::memcpy(payload.data() + 2 * i, &code, sizeof code);
    }
  }
  void decode(std::span<std::byte const> payload, std::span<float> to) const noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) {
      auto code = fssdp::fp16{};
      std::memcpy(&code, payload.data() + 2 * i, sizeof code);
      to[i] = static_cast<float>(code) / scale;
    }
  }
  /// Half a unit in the last place, or half a step of the smallest; from 65520 / scale on,
  /// infinity.
  [[nodiscard]] double error_bound(float element, float /*largest*/) const noexcept {
    auto const scaled = static_cast<double>(element) * static_cast<double>(scale);
    if (scaled >= 65520) return std::numeric_limits<double>::infinity();
    return (scaled * 0x1p-11 > 0x1p-25 ? scaled * 0x1p-11 : 0x1p-25) / static_cast<double>(scale);
  }
};

static_assert(fssdp::codec<fp16_codec>);

/// The coding that stands for an element type on the wire: everything that moves is coded.
template <class Real, class Wire>
[[nodiscard]] constexpr auto coding_for() {
  constexpr auto all = fssdp::link_class::all;
  if constexpr (std::is_same_v<Real, Wire>) {
    return fssdp::wire_coding<>{};
  } else if constexpr (std::is_same_v<Wire, fssdp::fp16>) {
    return fssdp::wire_coding{fssdp::coded_links{fp16_codec{}, all},
                              fssdp::coded_links{fp16_codec{.scale = 4096}, all}};
  } else {
    return fssdp::wire_coding{fssdp::coded_links{fssdp::bf16_codec{}, all},
                              fssdp::coded_links{fssdp::bf16_codec{}, all}};
  }
}
template <class Real, class Wire>
using coding_type = decltype(coding_for<Real, Wire>());

}  // namespace moe_gpt
