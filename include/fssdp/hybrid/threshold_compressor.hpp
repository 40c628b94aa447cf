// SPDX-License-Identifier: Apache-2.0
/// The elements above a threshold: first which ones, as bits, then their sums.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/nth_magnitude.hpp"
#include "fssdp/hybrid/packed_codes.hpp"

namespace fssdp {

/// A group marks its elements above a threshold. Then every group sends its elements at the marks
/// of all groups. All other elements are kept for the residual.
///
/// Two exchanges: one bit for each element, gathered; then 4 bytes for each element that any group
/// has marked, added. So the average of these elements is exact. The size depends on the elements:
/// n / 8 bytes, which every group sends to all others, plus 4 bytes for each marked element.
/// Elements that are not finite are marked, and change no others.
/// @cost a selection of the n-th largest magnitude of each unit
///
/// TAGC (arXiv 2504.05638) adds such values by a sketch inside the network, and searches its
/// threshold in 25 steps; here the marks are gathered, and the threshold is exact.
struct threshold_compressor {
  double dropped = 0.95;  ///< at least this share of a unit is below the threshold
  float threshold = 0;    ///< if above 0, used instead: larger magnitudes are marked

  [[nodiscard]] combination combines(int round) const {
    return round == 0 ? combination::gather : combination::sum;
  }
  [[nodiscard]] std::string description() const {
    return detail::text("threshold_compressor, ", dropped, " dropped, threshold ", threshold);
  }
  [[nodiscard]] int rounds() const { return 2; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int round) const {
    detail::require(dropped >= 0 && dropped <= 1 && threshold >= 0,
                    "threshold_compressor: dropped is ", dropped, " and threshold ", threshold,
                    "; expected 0 to 1, and 0 or more");
    auto const elements = shape.elements();
    return round == 0 ? bytes_of_marks(elements)
                      : detail::checked_product("threshold_compressor", elements, sizeof(float));
  }
  [[nodiscard]] std::size_t payload_bytes_after(compression_unit const& unit,
                                                std::span<combined_payload const> before) const {
    if (before.empty()) return bytes_of_marks(unit.shape.elements());
    auto marks = std::size_t{0};
    for (std::size_t byte = 0; byte < before[0].mine.size(); byte += 8)
      marks += static_cast<std::size_t>(std::popcount(word_of_all(before[0], byte)));
    return marks * sizeof(float);
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape shape) const { return shape.elements(); }
  [[nodiscard]] bool needs_residual(unit_shape) const { return true; }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const> before, std::span<std::byte> payload) const {
    if (!before.empty()) {
      auto n = std::size_t{0};
      for_each_mark(before[0], [&](std::size_t at) {
        detail::put_float(payload, n++, is_marked(before[0].mine, at) ? input[at] : 0.0F);
      });
      return;
    }
    auto const limit = limit_of(unit, input);
    using packed = detail::packed_codes<1>;
    for (std::size_t first = 0; first < input.size(); first += detail::part_elements) {
      auto const part = detail::part_from(input, first);
      auto marks = detail::code_array{};
      for (std::size_t i = 0; i < part.size(); ++i)
        marks[i] = std::abs(part[i]) <= limit ? 0 : 1;  // NaN is marked
      auto const count = static_cast<std::ptrdiff_t>(std::min(part.size(), input.size() - first));
      std::fill(marks.begin() + count, marks.end(), std::uint8_t{0});
      packed::pack(marks, packed::part_of(payload, first));
    }
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    put(rounds, rounds[1].mine, 1, output);
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    put(rounds, rounds[1].all, 1.0F / static_cast<float>(rounds[1].groups), output);
  }

 private:
  [[nodiscard]] static std::size_t bytes_of_marks(std::size_t elements) {
    return elements / 8 + (elements % 8 == 0 ? 0 : 1);
  }
  [[nodiscard]] static bool is_marked(std::span<std::byte const> marks, std::size_t at) {
    return (std::to_integer<unsigned>(marks[at / 8]) >> at % 8 & 1U) != 0;
  }
  /// The marks of all groups in 8 bytes, combined; the first element in the lowest bit.
  [[nodiscard]] static std::uint64_t word_of_all(combined_payload const& marks, std::size_t first) {
    auto const groups = static_cast<std::size_t>(marks.groups);
    auto const count = std::min(std::size_t{8}, marks.mine.size() - first);
    auto word = std::uint64_t{0};
    for (std::size_t g = 0; g < groups; ++g) {
      auto bytes = std::array<std::byte, 8>{};
      std::memcpy(bytes.data(), marks.of_group(g).data() + first, count);
      for (std::size_t i = 0; i < 8; ++i) word |= std::to_integer<std::uint64_t>(bytes[i]) << 8 * i;
    }
    return word;
  }
  /// Calls visit(element) for all elements that any group has marked, ascending.
  template <class Visit>
  static void for_each_mark(combined_payload const& marks, Visit visit) {
    for (std::size_t byte = 0; byte < marks.mine.size(); byte += 8)
      for (auto word = word_of_all(marks, byte); word != 0; word &= word - 1)
        visit(8 * byte + static_cast<std::size_t>(std::countr_zero(word)));
  }
  [[nodiscard]] float limit_of(compression_unit const& unit, std::span<float const> input) const {
    if (threshold > 0 || input.empty()) return threshold;
    auto const magnitudes = unit.scratch.first(input.size());
    auto finite = std::size_t{0};
    for (auto const x : input) {
      magnitudes[finite] = std::abs(x);
      finite += std::isfinite(x) ? 1 : 0;
    }
    auto const below =
        static_cast<std::size_t>(std::ceil(dropped * static_cast<double>(input.size())));
    if (below == 0 || finite == 0) return -1;  // zeros are marked, too
    auto const found = magnitudes.first(finite);
    return detail::nth_magnitude(found, std::min(below, finite) - 1, found);
  }
  static void put(std::span<combined_payload const> rounds, std::span<std::byte const> values,
                  float share, std::span<float> output) {
    std::ranges::fill(output, 0.0F);
    auto n = std::size_t{0};
    for_each_mark(rounds[0],
                  [&](std::size_t at) { output[at] = detail::float_at(values, n++) * share; });
  }
};

static_assert(compressor<threshold_compressor>);

}  // namespace fssdp
