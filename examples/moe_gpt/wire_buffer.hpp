// SPDX-License-Identifier: Apache-2.0
/// Per-expert values that are computed with in one type and travel in another.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/core/expert_buffer.hpp"

namespace moe_gpt {

/// Every element of one buffer to the same element of the other, in its type.
template <class From, class To>
void convert(fssdp::expert_buffer<From> const& from, fssdp::expert_buffer<To>& to) {
  for (std::size_t k = 0; k < from.tensors().size(); ++k)
    for (std::size_t slot = 0; slot < from.slots(); ++slot) {
      auto const in = from.tensors()[k][slot];
      auto const out = to.tensors()[k][slot];
      for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<To>(in[i]);
    }
}

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
    if constexpr (converts) convert(image_, values_);
  }

  /// What a collective sends: the values as they are now.
  [[nodiscard]] auto const& outgoing() {
    if constexpr (converts) convert(values_, image_);
    return incoming();
  }

 private:
  static constexpr auto converts = !std::is_same_v<Real, Wire>;

  fssdp::expert_buffer<Real> values_;
  fssdp::expert_buffer<Wire> image_;
};

}  // namespace moe_gpt
