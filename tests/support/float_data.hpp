// SPDX-License-Identifier: Apache-2.0
/// Partial gradients whose sums depend on the order in which they are formed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/any_buffer.hpp"
#include "support/dice.hpp"
#include "support/rank_buffers.hpp"

namespace support {

/// Fills a buffer with numbers of very different size, the same for equal seeds.
template <class Buffer>
void fill_roughly(Buffer& buffer, std::uint64_t seed) {
  auto draw = dice{seed};
  fill(buffer,
       [&] { return draw.between(-1'000'000, 1'000'000) * std::pow(10.0, draw.between(-6, 3)); });
}

/// The bits of one element.
template <fssdp::element T>
[[nodiscard]] std::uint64_t bits(T value) {
  if constexpr (sizeof(T) == 1)
    return std::bit_cast<std::uint8_t>(value);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<std::uint16_t>(value);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint64_t>(value);
}
/// The bits of all elements.
template <fssdp::element T>
[[nodiscard]] std::vector<std::uint64_t> bits(fssdp::expert_buffer<T> const& buffer) {
  auto all = std::vector<std::uint64_t>{};
  for (auto const& tensor : buffer.tensors())
    for (std::size_t slot = 0; slot < tensor.slots; ++slot)
      for (auto const value : tensor[slot]) all.push_back(bits(value));
  return all;
}

}  // namespace support
