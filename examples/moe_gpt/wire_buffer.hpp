// SPDX-License-Identifier: Apache-2.0
/// Per-expert values that are computed with in one type and travel in another.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/collective/convert.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/expert_buffer.hpp"

namespace moe_gpt {

/// What gradients are multiplied by while they travel: fp16 has no room for the smallest ones.
template <class Wire>
inline constexpr double wire_scale = std::is_same_v<Wire, fssdp::fp16> ? 4096.0 : 1.0;

/// A buffer of Real with, where the wire has another type, its image in that type.
template <class Real, class Wire>
class wire_buffer {
 public:
  wire_buffer(std::size_t slots, std::span<std::size_t const> elements)
      : values_{slots, elements}, image_{converts ? slots : 0, elements} {}

  void resize(std::size_t slots) {
    values_.resize(slots);
    if constexpr (converts) image_.resize(slots);
  }

  [[nodiscard]] fssdp::expert_buffer<Real>& values() { return values_; }
  [[nodiscard]] fssdp::expert_buffer<Real> const& values() const { return values_; }

  /// What a collective may write to; the values are there after `arrived`.
  [[nodiscard]] auto& incoming() {
    if constexpr (converts)
      return image_;
    else
      return values_;
  }
  void arrived() {
    if constexpr (converts)
      for_each_slot([](std::span<Real> value, std::span<Wire> image) {
        fssdp::convert(std::span<Wire const>{image}, value);
      });
  }

  /// What a collective sends: the values as they are now, times a factor.
  [[nodiscard]] auto const& outgoing(double factor = 1) {
    if constexpr (converts)
      for_each_slot([factor](std::span<Real> value, std::span<Wire> image) {
        for (std::size_t i = 0; i < value.size(); ++i)
          image[i] = static_cast<Wire>(static_cast<Real>(factor) * value[i]);
      });
    return incoming();
  }

 private:
  static constexpr auto converts = !std::is_same_v<Real, Wire>;

  template <class Function>
  void for_each_slot(Function function) {
    for (std::size_t k = 0; k < values_.tensors().size(); ++k)
      for (std::size_t slot = 0; slot < values_.slots(); ++slot)
        function(values_.tensors()[k][slot], image_.tensors()[k][slot]);
  }

  fssdp::expert_buffer<Real> values_;
  fssdp::expert_buffer<Wire> image_;
};

}  // namespace moe_gpt
