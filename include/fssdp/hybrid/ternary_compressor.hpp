// SPDX-License-Identifier: Apache-2.0
/// Two bits per element: the sign, or nothing, by chance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/full_compressor.hpp"

namespace fssdp {

/// With s = min(max |g|, clip * sigma), sigma the deviation of the unit, and s the largest of all
/// groups: an element becomes s sign(g) with the probability |g| / s, else 0. Its average over
/// draws is g where |g| <= s. Groups draw independently, by their own key.
///
/// Two rounds: s of each group, 4 bytes; then n / 4 bytes of codes. A unit with an element that is
/// not finite becomes NaN in all groups.
/// (TernGrad, arXiv 1705.07878, with its clipping and scaler sharing)
struct ternary_compressor {
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  double clip = 2.5;  ///< in standard deviations; 0: nothing is clipped

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
    std::ranges::fill(payload, std::byte{0});
    for (std::size_t i = 0; i < input.size(); ++i) {
      auto const magnitude = std::abs(input[i]);
      auto const is_sent = draw[i] * scale < magnitude;
      auto const code = !is_sent ? 1U : std::signbit(input[i]) ? 0U : 2U;
      payload[i / 4] |= static_cast<std::byte>(code << 2 * (i % 4));
    }
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    auto const scale = shared_scale(rounds[0]);
    for (std::size_t i = 0; i < output.size(); ++i)
      output[i] = scale * static_cast<float>(sign_at(rounds[1].mine, i));
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    auto const groups = static_cast<std::size_t>(rounds[1].groups);
    auto const scale = shared_scale(rounds[0]);
    for (std::size_t i = 0; i < output.size(); ++i) {
      auto sum = 0;
      for (std::size_t g = 0; g < groups; ++g) sum += sign_at(rounds[1].of_group(g), i);
      output[i] = scale * static_cast<float>(sum) / static_cast<float>(groups);
    }
  }

 private:
  [[nodiscard]] float scale_of(std::span<float const> input) const {
    auto largest = 0.0;
    auto sum = 0.0;
    auto squares = 0.0;
    for (auto const g : input) {
      if (!std::isfinite(g)) return std::numeric_limits<float>::quiet_NaN();
      largest = std::max(largest, std::abs(double{g}));
      sum += g;
      squares += double{g} * g;
    }
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
  [[nodiscard]] static int sign_at(std::span<std::byte const> codes, std::size_t i) {
    return static_cast<int>(std::to_integer<unsigned>(codes[i / 4]) >> 2 * (i % 4) & 3U) - 1;
  }
};

static_assert(compressor<ternary_compressor>);

}  // namespace fssdp
