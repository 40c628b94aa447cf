// SPDX-License-Identifier: Apache-2.0
/// The payload of the largest coefficients of a block, each with its index.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/nth_magnitude.hpp"
#include "fssdp/hybrid/weighted_lines.hpp"

namespace fssdp::detail {

/// The `kept` coefficients of largest magnitude among `size`; of equal ones the first. The payload
/// has their indices
/// (1 byte each if size is at most 256, otherwise 2), then their values (4 bytes each).
struct kept_coefficients {
  std::size_t size;
  std::size_t kept;

  [[nodiscard]] std::size_t index_bytes() const { return size <= 256 ? 1 : 2; }
  [[nodiscard]] std::size_t bytes() const { return kept * (index_bytes() + sizeof(float)); }

  void put(std::span<std::byte> payload, std::size_t n, std::size_t index, float value) const {
    payload[n * index_bytes()] = static_cast<std::byte>(index & 0xff);
    if (index_bytes() == 2) payload[n * 2 + 1] = static_cast<std::byte>(index >> 8U);
    put_float(payload.subspan(kept * index_bytes()), n, value);
  }
  /// Always below size, even for an invalid payload.
  [[nodiscard]] std::size_t index_at(std::span<std::byte const> payload, std::size_t n) const {
    auto const low = std::to_integer<std::size_t>(payload[n * index_bytes()]);
    auto const high =
        index_bytes() == 1 ? 0 : std::to_integer<std::size_t>(payload[n * 2 + 1]) << 8U;
    return std::min(low + high, size - 1);
  }
  [[nodiscard]] float value_at(std::span<std::byte const> payload, std::size_t n) const {
    return float_at(payload.subspan(kept * index_bytes()), n);
  }

  /// Writes NaN for the first coefficients.
  void put_nan(std::span<std::byte> payload) const {
    for (std::size_t n = 0; n < kept; ++n)
      put(payload, n, n, std::numeric_limits<float>::quiet_NaN());
  }
  /// Writes the largest coefficients of a block in the order of their indices; NaN if any is not
  /// finite.
  /// @param magnitudes, scratch of `size` elements each; overwritten
  void put_largest(std::span<float const> block, std::span<float> magnitudes,
                   std::span<float> scratch, std::span<std::byte> payload) const {
    auto const bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };  // in their order
    std::ranges::transform(block, magnitudes.begin(), [](float x) { return std::abs(x); });
    auto const least = bits(nth_magnitude(magnitudes, size - kept, scratch));
    auto equal = kept - static_cast<std::size_t>(std::ranges::count_if(
                            magnitudes, [&](float m) { return bits(m) > least; }));
    auto n = std::size_t{0};
    for (std::size_t i = 0; i < size && n < kept; ++i) {
      auto const magnitude = bits(magnitudes[i]);
      if (magnitude < least || (magnitude == least && equal == 0)) continue;
      if (magnitude == least) --equal;
      if (!std::isfinite(block[i])) return put_nan(payload);
      put(payload, n++, i, block[i]);
    }
  }

  /// The same for `lanes` blocks together, largest first; coefficient i of block l is at i * lanes
  /// + l.
  /// @param magnitudes as many elements; overwritten
  /// @param payload_of payload_of(l) for l < `blocks`
  /// @cost `kept` comparisons per element
  template <class PayloadOf>
  void put_largest_of_lanes(std::span<float const> all, std::span<float> magnitudes,
                            std::size_t blocks, PayloadOf payload_of) const {
    auto zeros = lane_array{};  // NaN if any coefficient is not finite
    for (std::size_t i = 0; i < size; ++i) {
      auto line = lane_array{};
      for (std::size_t l = 0; l < lanes; ++l) {
        line[l] = std::abs(all[i * lanes + l]);
        zeros[l] += line[l] - line[l];
      }
      std::ranges::copy(line, &magnitudes[i * lanes]);
    }
    for (std::size_t n = 0; n < kept; ++n) {
      auto most = std::array<std::int32_t, lanes>{};  // as bits, which have the order of floats
      auto at = std::array<std::int32_t, lanes>{};
      most.fill(-1);
      for (std::size_t i = 0; i < size; ++i) {
        auto const* const line = &magnitudes[i * lanes];
        auto const index = static_cast<std::int32_t>(i);
        for (std::size_t l = 0; l < lanes; ++l) {
          auto const magnitude = std::bit_cast<std::int32_t>(line[l]);
          auto const is_larger = magnitude > most[l];
          at[l] = is_larger ? index : at[l];
          most[l] = is_larger ? magnitude : most[l];
        }
      }
      for (std::size_t l = 0; l < blocks; ++l) {
        auto const index = static_cast<std::size_t>(at[l]);
        put(payload_of(l), n, index, all[index * lanes + l]);
        magnitudes[index * lanes + l] = -1;  // already taken
      }
    }
    for (std::size_t l = 0; l < blocks; ++l)
      if (zeros[l] != 0) put_nan(payload_of(l));
  }
};

}  // namespace fssdp::detail
