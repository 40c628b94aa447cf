// SPDX-License-Identifier: Apache-2.0
/// Two bits per element: the sign, or zero, at random.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/packed_codes.hpp"

namespace fssdp {

/// With s = min(max |g|, clip * sigma), where sigma is the standard deviation of the unit, and s
/// the maximum over all groups: an element becomes s sign(g) with probability |g| / s, otherwise 0.
/// Its mean over the random numbers is g if |g| <= s. Groups use independent random numbers, by
/// their own keys.
///
/// Two exchanges: s of each group, 4 bytes; then n / 4 bytes of codes. A unit with an element that
/// is not finite becomes NaN in all groups.
/// (TernGrad, arXiv 1705.07878, with its clipping and scaler sharing)
struct ternary_compressor {
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  double clip = 2.5;  ///< in standard deviations; 0: no clipping

  [[nodiscard]] std::string description() const {
    return detail::text("ternary_compressor, clipped at ", clip);
  }
  [[nodiscard]] int rounds() const { return 2; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int round) const {
    auto const elements = shape.elements();
    return round == 0 ? sizeof(float) : elements / 4 + (elements % 4 == 0 ? 0 : 1);
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(unit_shape) const { return false; }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const> before, std::span<std::byte> payload) const {
    if (before.empty()) {
      detail::put_float(payload, 0, scale_of(input));
      return;
    }
    auto const scale = shared_scale(before[0]);
    auto const draw = counter_random{unit.own_key};
    for (std::size_t first = 0; first < input.size(); first += detail::part_elements) {
      auto const part = detail::part_from(input, first);
      auto const draws = draw.many(first);
      auto codes = detail::code_array{};
      for (std::size_t i = 0; i < part.size(); ++i) {
        auto const of_sign = std::bit_cast<std::int32_t>(part[i]) < 0 ? 0 : 2;
        codes[i] = static_cast<std::uint8_t>(draws[i] * scale < std::abs(part[i]) ? of_sign : 1);
      }
      packed::pack(codes, packed::part_of(payload, first));
    }
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    add_up(
        1, shared_scale(rounds[0]), [&](std::size_t) { return rounds[1].mine; }, output);
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    add_up(
        rounds[1].groups, shared_scale(rounds[0]),
        [&](std::size_t group) { return rounds[1].of_group(group); }, output);
  }

 private:
  using packed = detail::packed_codes<2>;  // the code is the sign plus 1

  [[nodiscard]] float scale_of(std::span<float const> input) const {
    constexpr auto lanes = std::size_t{8};
    static_assert(detail::part_elements % lanes == 0);
    auto largest_of = std::array<float, lanes>{};
    auto sums = std::array<double, lanes>{};
    auto squares_of = std::array<double, lanes>{};
    for (std::size_t first = 0; first < input.size(); first += detail::part_elements) {
      auto const part = detail::part_from(input, first);
      for (std::size_t i = 0; i < part.size(); i += lanes)
        for (std::size_t l = 0; l < lanes; ++l) {
          auto const g = part[i + l];
          auto const magnitude = std::abs(g);
          largest_of[l] = magnitude > largest_of[l] ? magnitude : largest_of[l];
          sums[l] += double{g};
          squares_of[l] += double{g} * double{g};
        }
    }
    auto const largest = double{std::ranges::max(largest_of)};
    auto const sum = std::accumulate(sums.begin(), sums.end(), 0.0);
    auto const squares = std::accumulate(squares_of.begin(), squares_of.end(), 0.0);
    if (!std::isfinite(squares)) return std::numeric_limits<float>::quiet_NaN();
    if (clip <= 0 || input.empty()) return static_cast<float>(largest);
    auto const mean = sum / static_cast<double>(input.size());
    auto const variance = squares / static_cast<double>(input.size()) - mean * mean;
    return static_cast<float>(std::min(largest, clip * std::sqrt(std::max(0.0, variance))));
  }
  [[nodiscard]] static float shared_scale(combined_payload const& scales) {
    auto largest = 0.0F;
    for (int g = 0; g < scales.groups; ++g) {
      auto const scale = detail::float_at(scales.of_group(static_cast<std::size_t>(g)), 0);
      if (!std::isfinite(scale)) return std::numeric_limits<float>::quiet_NaN();
      largest = std::max(largest, scale);
    }
    return largest;
  }
  /// The average of the decoded payloads of the groups.
  template <class PayloadOf>
  static void add_up(int groups, float scale, PayloadOf payload_of, std::span<float> output) {
    for (std::size_t first = 0; first < output.size(); first += detail::part_elements) {
      auto sums = std::array<std::int32_t, detail::part_elements>{};
      sums.fill(-groups);
      for (int g = 0; g < groups; ++g) {
        auto const payload = std::span<std::byte const>{payload_of(static_cast<std::size_t>(g))};
        auto const codes = packed::unpack(packed::part_of(payload, first));
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += codes[i];
      }
      auto averages = detail::float_part{};
      for (std::size_t i = 0; i < sums.size(); ++i)
        averages[i] = scale * static_cast<float>(sums[i]) / static_cast<float>(groups);
      detail::put_part(averages, output, first);
    }
  }
};

static_assert(compressor<ternary_compressor>);

}  // namespace fssdp
