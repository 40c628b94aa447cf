// SPDX-License-Identifier: Apache-2.0
/// Few bits per element, with random rounding.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/packed_codes.hpp"

namespace fssdp {

/// Where randomness is applied in quantization.
enum class quantized_rounding {
  random,  ///< each element is rounded up or down at random, by the own key of the group
  shifted  ///< the grid is shifted by a random part of a step, the same in all groups; elements are
           ///< rounded to the nearest point
};

/// Quantizes buckets of elements between their smallest and largest element in 2^bits - 1 equal
/// steps.
///
/// `random`: the code of x is floor((x - least) / step + u), u in [0, 1) by the own key of a group.
/// `shifted`: x becomes least + step (r + round((x - least) / step - r)), with r in [-1/2, 1/2) for
/// each bucket, by the key that all groups share. The error is at most step / 2, and its variance
/// over r is step^2 / 12. With `random` the variance is f (1 - f) step^2 at a fraction f of a step,
/// on average twice as large. The elements of a bucket, and groups, share r, so their errors are
/// not independent. If a point of the shifted grid would not be a float, r is 0.
///
/// In both cases the mean over the random numbers is x, so there is no residual. A bucket with an
/// element that is not finite becomes NaN; one of equal elements is exact.
///
/// 8 bytes for each bucket, and bits / 8 for each element.
///
/// QSDP (arXiv 2302.02390) rounds gradients at random, and shifts the grid of weights at random, in
/// buckets of 1024. The formulas here are not copied from it, and may differ: in the range of the
/// grid, in which buckets share a shift, and in codes beyond the last one, which are clamped here.
/// Levels are equally spaced, as with QSDP's 8 bits; it can also learn levels, for fewer bits.
class quantized_compressor {
 public:
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  struct options {
    std::size_t bits = 8;  ///< 1, 2, 4 or 8
    std::size_t bucket = 1024;
    quantized_rounding rounding = quantized_rounding::random;
  };

  quantized_compressor() : quantized_compressor{options{}} {}
  /// @throws argument_error if bits are not 1, 2, 4 or 8, or a bucket is not a number of whole
  ///         bytes
  explicit quantized_compressor(options const& of) : options_{of} {
    detail::require(of.bits == 1 || of.bits == 2 || of.bits == 4 || of.bits == 8,
                    "quantized_compressor: bits is ", of.bits, "; expected 1, 2, 4 or 8");
    detail::require(of.bucket >= 8 && of.bucket % 8 == 0, "quantized_compressor: bucket is ",
                    of.bucket, "; expected a multiple of 8");
  }

  [[nodiscard]] std::string description() const {
    return detail::text("quantized_compressor, ", options_.bits, " bits, buckets of ",
                        options_.bucket, is_shifted() ? ", shifted" : "");
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
    with_bits([&]<std::size_t bits>(bits_of<bits>) {
      for (std::size_t first = 0; first < input.size(); first += options_.bucket) {
        auto const bucket = input.subspan(first, std::min(options_.bucket, input.size() - first));
        auto const to = payload.first(bucket_bytes(bucket.size()));
        payload = payload.subspan(to.size());
        if (is_shifted())
          encode_bucket<bits>(shifted_by(draw_of(unit, first), range_of(bucket)), bucket, to,
                              nearest);
        else
          encode_bucket<bits>(range_of(bucket), bucket, to, [&](std::size_t index) {
            return counter_random{unit.own_key}.many(first + index);
          });
      }
    });
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    add_up(
        1, [&](std::size_t) { return rounds[0].mine; }, output);
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    add_up(
        static_cast<std::size_t>(rounds[0].groups),
        [&](std::size_t group) { return rounds[0].of_group(group); }, output);
  }

 private:
  static constexpr auto at_once = detail::part_elements;
  static_assert(at_once == counter_random::at_once);

  template <std::size_t bits>
  using bits_of = std::integral_constant<std::size_t, bits>;
  template <class Call>
  void with_bits(Call call) const {
    switch (options_.bits) {
      case 1:
        return call(bits_of<1>{});
      case 2:
        return call(bits_of<2>{});
      case 4:
        return call(bits_of<4>{});
      default:
        return call(bits_of<8>{});
    }
  }

  static constexpr auto header_bytes = 2 * sizeof(float);
  struct bucket_range {
    float least;
    float step;
  };

  [[nodiscard]] std::size_t bucket_bytes(std::size_t elements) const {
    return header_bytes + (elements * options_.bits + 7) / 8;
  }
  [[nodiscard]] float highest() const { return static_cast<float>((1U << options_.bits) - 1); }
  [[nodiscard]] bucket_range range_of(std::span<float const> bucket) const {
    auto lowest = detail::part_from(bucket, 0, bucket[0]);
    auto greatest = lowest;
    auto zeros = detail::float_part{};  // NaN if any element is not finite
    for (std::size_t first = 0; first < bucket.size(); first += at_once) {
      auto const part = detail::part_from(bucket, first, bucket[0]);
      for (std::size_t i = 0; i < at_once; ++i) {
        lowest[i] = part[i] < lowest[i] ? part[i] : lowest[i];
        greatest[i] = part[i] > greatest[i] ? part[i] : greatest[i];
        zeros[i] += part[i] - part[i];
      }
    }
    for (auto const zero : zeros)
      if (zero != 0) return {std::numeric_limits<float>::quiet_NaN(), 0};
    auto const least = std::ranges::min(lowest);
    return {least, std::ranges::max(greatest) / highest() - least / highest()};
  }
  [[nodiscard]] bool is_shifted() const { return options_.rounding == quantized_rounding::shifted; }
  /// A random number in [-1/2, 1/2) for the bucket that begins with this element.
  [[nodiscard]] float draw_of(compression_unit const& unit, std::size_t first) const {
    return counter_random{unit.shared_key}[first / options_.bucket] - 0.5F;
  }
  /// The grid shifted by a part of a step, if all its points stay floats.
  [[nodiscard]] bucket_range shifted_by(float part, bucket_range of) const {
    auto const moved = of.least + part * of.step;
    return std::isfinite(moved) && std::isfinite(moved + highest() * of.step)
               ? bucket_range{moved, of.step}
               : of;
  }
  /// What is added to positions on the grid before they are rounded down.
  [[nodiscard]] static detail::float_part nearest(std::size_t /*index*/) {
    auto halves = detail::float_part{};
    halves.fill(0.5F);
    return halves;
  }
  /// @param added what is added to the positions of a part's elements before they are rounded down,
  ///        given the index of the first one in the bucket
  template <std::size_t bits, class Added>
  static void encode_bucket(bucket_range range, std::span<float const> bucket,
                            std::span<std::byte> to, Added added) {
    detail::put_float(to, 0, range.least);
    detail::put_float(to, 1, range.step);
    auto const payload = to.subspan(header_bytes);
    std::ranges::fill(payload, std::byte{0});
    if (!(range.step > 0)) return;
    using packed = detail::packed_codes<bits>;
    constexpr auto most = static_cast<float>((1U << bits) - 1);
    for (std::size_t first = 0; first < bucket.size(); first += at_once) {
      auto const part = detail::part_from(bucket, first, bucket[0]);
      auto const more = added(first);
      auto codes = detail::code_array{};
      for (std::size_t i = 0; i < at_once; ++i) {
        // Above -1, so truncation gives 0: a shift, rounded, is at most one step.
        auto const place = (part[i] - range.least) / range.step + more[i];
        codes[i] = static_cast<std::uint8_t>(static_cast<int>(place < most ? place : most));
      }
      packed::pack(codes, packed::part_of(payload, first));
    }
  }
  /// The average of the decoded payloads of the groups.
  template <class PayloadOf>
  void add_up(std::size_t groups, PayloadOf payload_of, std::span<float> output) const {
    with_bits([&]<std::size_t bits>(bits_of<bits>) {
      auto offset = std::size_t{0};
      for (std::size_t first = 0; first < output.size(); first += options_.bucket) {
        auto const bucket = output.subspan(first, std::min(options_.bucket, output.size() - first));
        auto const bytes = bucket_bytes(bucket.size());
        add_up_bucket<bits>(
            groups, [&](std::size_t group) { return payload_of(group).subspan(offset, bytes); },
            bucket);
        offset += bytes;
      }
    });
  }
  template <std::size_t bits, class PayloadOf>
  static void add_up_bucket(std::size_t groups, PayloadOf payload_of, std::span<float> bucket) {
    using packed = detail::packed_codes<bits>;
    auto const share = 1.0F / static_cast<float>(groups);
    for (std::size_t first = 0; first < bucket.size(); first += at_once) {
      auto sums = detail::float_part{};
      for (std::size_t group = 0; group < groups; ++group) {
        auto const payload = std::span<std::byte const>{payload_of(group)};
        auto const least = detail::float_at(payload, 0);
        auto const step = detail::float_at(payload, 1);
        auto const codes = packed::unpack(packed::part_of(payload.subspan(header_bytes), first));
        for (std::size_t i = 0; i < at_once; ++i)
          sums[i] += least + step * static_cast<float>(static_cast<int>(codes[i]));
      }
      for (auto& sum : sums) sum *= share;
      detail::put_part(sums, bucket, first);
    }
  }

  options options_;
};

static_assert(compressor<quantized_compressor>);

}  // namespace fssdp
