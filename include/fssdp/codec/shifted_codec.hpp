// SPDX-License-Identifier: Apache-2.0
/// Few bits per element, on a randomly shifted grid: unbiased, for weights.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"

namespace fssdp {

/// Encodes the elements of a bucket as the nearest points of a grid: base, base + step, ..., with
/// 2^bits - 2 points from the smallest to the largest element. The base is the smallest element
/// plus a random shift in [-step / 2, step / 2), computed from the bits of these two elements and
/// the seed: the mean of the decoded element over all seeds is the element. The base is part of the
/// payload, so all ranks that hold a chunk decode the same values. For weights: owners keep fp32,
/// and update that.
///
/// The payload of a bucket is base and step, 8 bytes, and `bits` for each element. Two codes are
/// reserved: for zero, which becomes +0, and for elements that are not finite, which become NaN.
/// Elements that are on such a grid already, and constant buckets, are exact: so decoded values do
/// not change when they are coded again.
/// @tparam bits 4 or 8
/// @tparam bucket the number of elements; with 256, pieces of chunks begin at buckets, and plans
///         that code the same chunks give equal bits
/// @cost a few passes over the bucket, in doubles
///
/// After the weight quantization of QSDP (arXiv 2302.02390). That has 2^bits points, steps of
/// (largest - smallest) / (2^bits - 1), no code for zero or NaN, and a new shift when decoded
/// values are coded again. Here a step has 4 significant bits, is up to 1/8 larger, and all points
/// are floats.
template <std::size_t bits = 8, std::size_t bucket = 256>
struct shifted_codec {
  static_assert(bits == 4 || bits == 8, "codes have 4 or 8 bits");
  static constexpr std::size_t block_elements = bucket;

  std::uint64_t seed = 0;  ///< selects the random shifts; not needed for decoding

  [[nodiscard]] static std::size_t encoded_bytes(std::size_t elements) {
    constexpr auto most = std::numeric_limits<std::size_t>::max() / 16;
    detail::require(elements <= most, "shifted_codec: ", elements, " elements; expected at most ",
                    most);
    auto const rest = elements % bucket;
    return elements / bucket * bytes_of(bucket) + (rest == 0 ? 0 : bytes_of(rest));
  }

  void encode(std::span<float const> from, std::span<std::byte> payload) const noexcept {
    for (std::size_t first = 0; first < from.size(); first += bucket) {
      auto const part = from.subspan(first, std::min(bucket, from.size() - first));
      encode_bucket(part, payload.first(bytes_of(part.size())));
      payload = payload.subspan(bytes_of(part.size()));
    }
  }
  void decode(std::span<std::byte const> payload, std::span<float> to) const noexcept {
    for (std::size_t first = 0; first < to.size(); first += bucket) {
      auto const part = to.subspan(first, std::min(bucket, to.size() - first));
      decode_bucket(payload.first(bytes_of(part.size())), part);
      payload = payload.subspan(bytes_of(part.size()));
    }
  }

  /// A step of a bucket whose elements are from -largest to largest; nearly half of that where the
  /// next point is a float.
  [[nodiscard]] static double error_bound(float /*element*/, float largest) noexcept {
    auto const most = std::abs(static_cast<double>(largest));
    auto const widest = std::max(2 * most / top * 1.125, 16 * granule(most));
    return (most < 0x1p126 ? 0.625 : 1.125) * widest;
  }

 private:
  static constexpr auto top = static_cast<double>((1U << bits) - 3);  // the last point
  static constexpr auto code_of_zero = static_cast<std::uint8_t>((1U << bits) - 2);
  static constexpr auto code_of_nan = static_cast<std::uint8_t>((1U << bits) - 1);
  static constexpr auto header_bytes = 2 * sizeof(float);

  struct grid {
    double base = 0;
    double step = 0;

    [[nodiscard]] double point(double code) const { return base + step * code; }
    [[nodiscard]] double nearest(float x) const {
      if (step == 0) return 0;
      auto const code = std::clamp(std::floor((double{x} - base) / step + 0.5), 0.0, top);
      return point(code) > std::numeric_limits<float>::max() ? code - 1 : code;
    }
  };
  struct extent {
    float least = std::numeric_limits<float>::infinity();
    float greatest = -std::numeric_limits<float>::infinity();
  };

  [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t elements) {
    return header_bytes + (elements * bits + 7) / 8;
  }
  /// Whether an element is encoded as a point of the grid.
  [[nodiscard]] static bool has_point(float x) { return x != 0 && x - x == 0; }
  /// A unit such that all its multiples up to twice the magnitude are floats.
  [[nodiscard]] static double granule(double magnitude) {
    auto const exponent = magnitude > 0 ? std::ilogb(magnitude) : -149;
    return std::ldexp(1.0, std::max(exponent - 22, -149));
  }
  /// The smallest float with this many significant bits that is not below x.
  [[nodiscard]] static double round_up(double x, int significant) {
    auto const unit = std::ldexp(1.0, std::max(std::ilogb(x) + 1 - significant, -149));
    return std::ceil(x / unit) * unit;
  }

  void encode_bucket(std::span<float const> from, std::span<std::byte> to) const noexcept {
    auto const of = grid_of(from);
    put(of.base, to);
    put(of.step, to.subspan(sizeof(float)));
    auto const codes = to.subspan(header_bytes);
    std::ranges::fill(codes, std::byte{0});
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto const x = from[i];
      auto const code = has_point(x) ? static_cast<std::uint8_t>(of.nearest(x))
                        : x == 0     ? code_of_zero
                                     : code_of_nan;
      codes[i * bits / 8] |= static_cast<std::byte>(code << i * bits % 8);
    }
  }
  static void decode_bucket(std::span<std::byte const> from, std::span<float> to) noexcept {
    auto const of = grid{get(from), get(from.subspan(sizeof(float)))};
    auto const codes = from.subspan(header_bytes);
    for (std::size_t i = 0; i < to.size(); ++i) {
      auto const byte = std::to_integer<unsigned>(codes[i * bits / 8]);
      auto const code = byte >> i * bits % 8 & ((1U << bits) - 1);
      auto const point = static_cast<float>(of.point(code));
      to[i] = code == code_of_zero  ? 0.0F
              : code == code_of_nan ? std::numeric_limits<float>::quiet_NaN()
                                    : point;
    }
  }
  static void put(double value, std::span<std::byte> to) {
    auto const rounded = static_cast<float>(value);
    std::memcpy(to.data(), &rounded, sizeof rounded);
  }
  [[nodiscard]] static double get(std::span<std::byte const> from) {
    auto value = 0.0F;
    std::memcpy(&value, from.data(), sizeof value);
    return double{value};
  }

  [[nodiscard]] static extent extent_of(std::span<float const> from) {
    auto of = extent{};
    for (auto const x : from) {
      if (!has_point(x)) continue;
      of.least = std::min(of.least, x);
      of.greatest = std::max(of.greatest, x);
    }
    return of;
  }
  [[nodiscard]] grid grid_of(std::span<float const> from) const {
    auto const [least, greatest] = extent_of(from);
    if (!(least <= greatest)) return {};
    auto const range = double{greatest} - double{least};
    if (range == 0) return {double{least}, 0};
    if (auto const found = exact_grid(from, double{least}, range); found.step > 0) return found;
    auto const magnitude = std::max(std::abs(double{least}), std::abs(double{greatest}));
    auto const unit = granule(magnitude);
    auto const step = std::max(round_up(range / top, 4), 16 * unit);
    auto const wanted = double{least} + step * shift(least, greatest);
    auto const lowest = std::ceil(double{std::numeric_limits<float>::lowest()} / unit) * unit;
    auto const base = std::max(std::floor(wanted / unit + 0.5) * unit, lowest);
    // No point may be 0, which has a code of its own.
    return {std::fmod(base, step) == 0 ? base + unit : base, step};
  }
  /// A grid that has all elements among its points, beginning with the smallest; its step is 0 if
  /// there is none.
  [[nodiscard]] static grid exact_grid(std::span<float const> from, double least, double range) {
    auto const is_exact = [&](grid const& of) {
      return std::ranges::all_of(from, [&](float x) {
        return !has_point(x) || static_cast<float>(of.point(of.nearest(x))) == x;
      });
    };
    for (auto step = round_up(range / top, 4); step <= 1.5 * range / top;
         step = round_up(step * 1.001, 4))
      if (is_exact({least, step})) return {least, step};
    auto const power = grid{least, round_up(range / top, 1)};
    return is_exact(power) ? power : grid{};
  }
  /// A random number in [-1/2, 1/2) of 24 bits.
  [[nodiscard]] double shift(float least, float greatest) const {
    auto hash = detail::hasher{};
    hash.mix(seed);
    hash.mix(std::bit_cast<std::uint32_t>(least));
    hash.mix(std::bit_cast<std::uint32_t>(greatest));
    return static_cast<double>(hash.value() >> 40U) * 0x1p-24 - 0.5;
  }
};

static_assert(codec<shifted_codec<8>> && codec<shifted_codec<4>>);

}  // namespace fssdp
