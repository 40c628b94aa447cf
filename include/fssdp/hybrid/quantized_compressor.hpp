// SPDX-License-Identifier: Apache-2.0
/// Few bits per element, rounded by chance.
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

/// Buckets of elements between their least and their greatest in 2^bits - 1 equal steps: the code
/// of x is floor((x - least) / step + u), u in [0, 1) by the own key of a group. The average over
/// draws is x, so that there is no residual. A bucket with an element that is not finite becomes
/// NaN.
///
/// 8 bytes for each bucket, and bits / 8 for each element.
/// (QSDP, arXiv 2302.02390, its gradients; the published rounding is remembered, not confirmed)
class quantized_compressor {
 public:
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  struct options {
    std::size_t bits = 8;  ///< 1, 2, 4 or 8
    std::size_t bucket = 1024;
  };

  quantized_compressor() : quantized_compressor{options{}} {}
  /// @throws argument_error on another number of bits, or buckets of no whole bytes
  explicit quantized_compressor(options const& of) : options_{of} {
    detail::require(of.bits == 1 || of.bits == 2 || of.bits == 4 || of.bits == 8,
                    "quantized_compressor: ", of.bits, " bits; expected 1, 2, 4 or 8");
    detail::require(of.bucket >= 8 && of.bucket % 8 == 0, "quantized_compressor: buckets of ",
                    of.bucket, "; expected a multiple of 8");
  }

  [[nodiscard]] std::string description() const {
    return detail::text("quantized_compressor, ", options_.bits, " bits, buckets of ",
                        options_.bucket);
  }
  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int /*round*/) const {
    auto const elements = shape.elements();
    auto const whole = elements / options_.bucket;
    auto const rest = elements % options_.bucket;
    return whole * bucket_bytes(options_.bucket) + (rest == 0 ? 0 : bucket_bytes(rest));
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(unit_shape) const { return false; }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const>, std::span<std::byte> payload) const {
    auto const draw = counter_random{unit.own_key};
    for (std::size_t first = 0; first < input.size(); first += options_.bucket) {
      auto const bucket = input.subspan(first, std::min(options_.bucket, input.size() - first));
      auto const to = payload.first(bucket_bytes(bucket.size()));
      payload = payload.subspan(to.size());
      auto const [least, step] = range_of(bucket);
      detail::put_float(to, 0, least);
      detail::put_float(to, 1, step);
      auto const codes = to.subspan(2 * sizeof(float));
      std::ranges::fill(codes, std::byte{0});
      for (std::size_t i = 0; i < bucket.size(); ++i) {
        auto const place = step > 0 ? (bucket[i] - least) / step + draw[first + i] : 0.0F;
        auto const code = static_cast<unsigned>(std::clamp(place, 0.0F, highest()));
        codes[i * options_.bits / 8] |= static_cast<std::byte>(code << i * options_.bits % 8);
      }
    }
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    std::ranges::fill(output, 0.0F);
    add(rounds[0].mine, output);
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    auto const groups = static_cast<std::size_t>(rounds[0].groups);
    std::ranges::fill(output, 0.0F);
    for (std::size_t g = 0; g < groups; ++g) add(rounds[0].of_group(g), output);
    for (auto& value : output) value *= 1.0F / static_cast<float>(groups);
  }

 private:
  struct bucket_range {
    float least;
    float step;
  };

  [[nodiscard]] std::size_t bucket_bytes(std::size_t elements) const {
    return 2 * sizeof(float) + (elements * options_.bits + 7) / 8;
  }
  [[nodiscard]] float highest() const { return static_cast<float>((1U << options_.bits) - 1); }
  [[nodiscard]] bucket_range range_of(std::span<float const> bucket) const {
    auto least = bucket.front();
    auto most = bucket.front();
    auto zeros = 0.0F;  // NaN if an element is not finite
    for (auto const x : bucket) {
      least = std::min(least, x);
      most = std::max(most, x);
      zeros += x - x;
    }
    if (zeros != zeros) return {std::numeric_limits<float>::quiet_NaN(), 0};
    return {least, most / highest() - least / highest()};
  }
  /// Adds what a payload stands for.
  void add(std::span<std::byte const> payload, std::span<float> output) const {
    auto const mask = (1U << options_.bits) - 1;
    for (std::size_t first = 0; first < output.size(); first += options_.bucket) {
      auto const bucket = output.subspan(first, std::min(options_.bucket, output.size() - first));
      auto const from = payload.first(bucket_bytes(bucket.size()));
      payload = payload.subspan(from.size());
      auto const least = detail::float_at(from, 0);
      auto const step = detail::float_at(from, 1);
      auto const codes = from.subspan(2 * sizeof(float));
      for (std::size_t i = 0; i < bucket.size(); ++i) {
        auto const byte = std::to_integer<unsigned>(codes[i * options_.bits / 8]);
        bucket[i] += least + step * static_cast<float>(byte >> i * options_.bits % 8 & mask);
      }
    }
  }

  options options_;
};

static_assert(compressor<quantized_compressor>);

}  // namespace fssdp
