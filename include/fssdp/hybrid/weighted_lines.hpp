// SPDX-License-Identifier: Apache-2.0
/// Weighted sums of lines: the common part of transforms and thin matrix products.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace fssdp::detail {

/// The number of elements of lines that are processed together. Loops of this length that write to
/// local memory are vectorized.
inline constexpr std::size_t lanes = 16;
using lane_array = std::array<float, lanes>;

/// The length of a line padded to whole lane arrays.
[[nodiscard]] constexpr std::size_t whole_lanes(std::size_t elements) {
  return (elements + lanes - 1) / lanes * lanes;
}

/// sum += weight(0) line(0) + weight(1) line(1) + ..., added one after the other in this order;
/// line(i) points to `width` floats.
template <std::size_t width, class WeightOf, class LineOf>
[[nodiscard]] std::array<float, width> add_lines(std::array<float, width> const& to,
                                                 std::size_t lines, WeightOf weight, LineOf line) {
  auto sum = to;
  auto i = std::size_t{0};
  for (; i + 4 <= lines; i += 4) {
    auto const [w, x, y, z] = std::array{weight(i), weight(i + 1), weight(i + 2), weight(i + 3)};
    auto const* const a = line(i);
    auto const* const b = line(i + 1);
    auto const* const c = line(i + 2);
    auto const* const d = line(i + 3);
    for (std::size_t l = 0; l < width; ++l)
      sum[l] = sum[l] + w * a[l] + x * b[l] + y * c[l] + z * d[l];
  }
  for (; i < lines; ++i) {
    auto const w = weight(i);
    auto const* const a = line(i);
    for (std::size_t l = 0; l < width; ++l) sum[l] += w * a[l];
  }
  return sum;
}

/// Interleaves `lanes` lines: element i of line l at i * lanes + l.
/// @param length of all lines, which are padded with zeros
/// @param line_of line_of(l), with its own length
template <class LineOf>
void load_lines(std::span<float> to, std::size_t length, LineOf line_of) {
  for (std::size_t l = 0; l < lanes; ++l) {
    auto const line = std::span<float const>{line_of(l)};
    for (std::size_t i = 0; i < line.size(); ++i) to[i * lanes + l] = line[i];
    for (auto i = line.size(); i < length; ++i) to[i * lanes + l] = 0;
  }
}

}  // namespace fssdp::detail
