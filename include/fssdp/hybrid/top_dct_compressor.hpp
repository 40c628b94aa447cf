// SPDX-License-Identifier: Apache-2.0
/// The largest coefficients of a cosine transform: the fast-moving components of a momentum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/full_compressor.hpp"

namespace fssdp {

namespace detail {

/// The orthonormal DCT-II of a length: c_j = sqrt((j ? 2 : 1) / N) sum_n x_n cos(pi (n + 1/2) j /
/// N).
class cosine_table {
 public:
  explicit cosine_table(std::size_t length)
      : length_{length}, by_element_(length * length), by_coefficient_(length * length) {
    for (std::size_t n = 0; n < length; ++n)
      for (std::size_t j = 0; j < length; ++j) {
        auto const angle = std::numbers::pi * (static_cast<double>(n) + 0.5) *
                           static_cast<double>(j) / static_cast<double>(length);
        auto const scale = std::sqrt((j == 0 ? 1.0 : 2.0) / static_cast<double>(length));
        auto const value = static_cast<float>(scale * std::cos(angle));
        by_element_[n * length + j] = value;
        by_coefficient_[j * length + n] = value;
      }
  }
  /// What an element adds to each coefficient, if it is 1.
  [[nodiscard]] std::span<float const> coefficients_of(std::size_t element) const {
    return {by_element_.data() + element * length_, length_};
  }
  /// What a coefficient adds to each element.
  [[nodiscard]] std::span<float const> elements_of(std::size_t coefficient) const {
    return {by_coefficient_.data() + coefficient * length_, length_};
  }

 private:
  std::size_t length_;
  std::vector<float> by_element_;      // [element, coefficient]
  std::vector<float> by_coefficient_;  // [coefficient, element]
};

}  // namespace detail

/// Of every block the `kept` coefficients of largest magnitude, each with its index; of equal ones
/// the first. At each coefficient the groups that have sent it are averaged; the others are 0.
///
/// A matrix is cut into blocks of rows x columns, and the last ones are filled up with zeros. A
/// unit of one row, or any unit if `rows` is 1, is one run that is cut into blocks of `columns`.
/// Blocks are counted from the start of the unit. A block with an element that is not finite
/// becomes NaN in all groups.
///
/// Indices take 1 byte where a block has at most 256 elements, else 2; values 4. So the default
/// sends 20 of 256 bytes, 1/12.8; blocks of 64 x 64 with 32 kept 1/85. With 1-D blocks of 64, kept
/// = 32 as in the published code saves only 3/8 with these indices, and nothing with its own of 8
/// bytes.
/// @cost `columns` (in two dimensions rows + columns) multiplications per element, and kept
///       comparisons
/// (DeMo, arXiv 2411.19870; FlexDeMo, 2502.06728. Where the paper and its code differ, as the code)
class top_dct_compressor {
 public:
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  struct options {
    std::size_t rows = 1;
    std::size_t columns = 64;
    std::size_t kept = 4;
  };

  top_dct_compressor() : top_dct_compressor{options{}} {}
  /// @throws argument_error unless a block has 1 to 65536 elements, and keeps 1 or more of them
  explicit top_dct_compressor(options const& of) : options_{of} {
    constexpr auto most = std::size_t{65536};
    detail::require(
        of.rows >= 1 && of.rows <= most && of.columns >= 1 && of.columns <= most / of.rows,
        "top_dct_compressor: blocks of ", of.rows, " x ", of.columns, "; expected 1 to ", most,
        " elements");
    detail::require(of.kept >= 1, "top_dct_compressor: 0 coefficients kept; expected 1 or more");
    columns_ = std::make_shared<detail::cosine_table const>(of.columns);
    rows_ =
        of.rows == of.columns ? columns_ : std::make_shared<detail::cosine_table const>(of.rows);
  }

  [[nodiscard]] std::string description() const {
    return detail::text("top_dct_compressor, ", options_.kept, " of ", options_.rows, " x ",
                        options_.columns);
  }
  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int /*round*/) const {
    auto const grid = grid_of(shape);
    return detail::checked_product("top_dct_compressor", grid.blocks(), grid.bytes());
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const {
    return 3 * options_.rows * options_.columns;
  }
  [[nodiscard]] bool needs_residual(unit_shape) const { return true; }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const>, std::span<std::byte> payload) const {
    auto const grid = grid_of(unit.shape);
    auto const [block, other, magnitudes] = memory(unit, grid);
    for (std::size_t b = 0; b < grid.blocks(); ++b) {
      auto const is_finite = load(grid, b, input, block);
      if (is_finite) transform(grid, block, other);
      keep(grid, is_finite, block, magnitudes, payload.subspan(b * grid.bytes(), grid.bytes()));
    }
  }
  void own(compression_unit const& unit, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    merge(
        unit, 1, [&](std::size_t) { return rounds[0].mine; }, output);
  }
  void decode(compression_unit const& unit, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    merge(
        unit, static_cast<std::size_t>(rounds[0].groups),
        [&](std::size_t group) { return rounds[0].of_group(group); }, output);
  }

 private:
  /// How a unit is cut into blocks.
  struct block_grid {
    std::size_t unit_rows;
    std::size_t unit_columns;
    std::size_t rows;  // of a block
    std::size_t columns;
    std::size_t kept;

    [[nodiscard]] std::size_t size() const { return rows * columns; }
    [[nodiscard]] std::size_t across() const { return up(unit_columns, columns); }
    [[nodiscard]] std::size_t blocks() const { return up(unit_rows, rows) * across(); }
    [[nodiscard]] std::size_t index_bytes() const { return size() <= 256 ? 1 : 2; }
    [[nodiscard]] std::size_t bytes() const { return kept * (index_bytes() + sizeof(float)); }

   private:
    [[nodiscard]] static std::size_t up(std::size_t a, std::size_t b) {
      return a / b + (a % b == 0 ? 0 : 1);
    }
  };
  struct working_memory {
    std::span<float> block;
    std::span<float> other;
    std::span<float> third;
  };

  [[nodiscard]] block_grid grid_of(unit_shape shape) const {
    auto const is_run = shape.rows == 1 || options_.rows == 1;
    auto const rows = is_run ? std::size_t{1} : options_.rows;
    auto const size = rows * options_.columns;
    return {is_run ? std::size_t{shape.elements() == 0 ? 0U : 1U} : shape.rows,
            is_run ? shape.elements() : shape.columns, rows, options_.columns,
            std::min(options_.kept, size)};
  }
  [[nodiscard]] static working_memory memory(compression_unit const& unit, block_grid const& of) {
    return {unit.scratch.first(of.size()), unit.scratch.subspan(of.size(), of.size()),
            unit.scratch.subspan(2 * of.size(), of.size())};
  }
  /// Calls visit(element of the unit, element of the block) for each row of a block and each column
  /// that is not filled up.
  template <class Visit>
  static void for_each_element(block_grid const& of, std::size_t b, Visit visit) {
    auto const top = b / of.across() * of.rows;
    auto const left = b % of.across() * of.columns;
    auto const rows = std::min(of.rows, of.unit_rows - top);
    auto const columns = std::min(of.columns, of.unit_columns - left);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        visit((top + r) * of.unit_columns + left + c, r * of.columns + c);
  }
  /// Whether all elements are finite.
  static bool load(block_grid const& of, std::size_t b, std::span<float const> input,
                   std::span<float> block) {
    std::ranges::fill(block, 0.0F);
    auto zeros = 0.0F;  // NaN if one is not
    for_each_element(of, b, [&](std::size_t from, std::size_t to) {
      block[to] = input[from];
      zeros += input[from] - input[from];
    });
    return zeros == 0;
  }
  /// to = from times the table, along rows: [rows, columns].
  template <class LineOf>
  static void along_rows(block_grid const& of, std::span<float const> from, std::span<float> to,
                         LineOf line_of) {
    std::ranges::fill(to, 0.0F);
    for (std::size_t r = 0; r < of.rows; ++r) {
      auto const row = to.subspan(r * of.columns, of.columns);
      for (std::size_t c = 0; c < of.columns; ++c) {
        auto const x = from[r * of.columns + c];
        auto const line = line_of(c);
        if (x != 0)
          for (std::size_t j = 0; j < of.columns; ++j) row[j] += x * line[j];
      }
    }
  }
  /// The same along columns.
  template <class LineOf>
  static void along_columns(block_grid const& of, std::span<float const> from, std::span<float> to,
                            LineOf line_of) {
    std::ranges::fill(to, 0.0F);
    for (std::size_t r = 0; r < of.rows; ++r) {
      auto const line = line_of(r);
      for (std::size_t j = 0; j < of.rows; ++j)
        for (std::size_t c = 0; c < of.columns; ++c)
          to[j * of.columns + c] += line[j] * from[r * of.columns + c];
    }
  }
  void transform(block_grid const& of, std::span<float> block, std::span<float> other) const {
    along_both(of, block, other, &detail::cosine_table::coefficients_of);
  }
  void transform_back(block_grid const& of, std::span<float> block, std::span<float> other) const {
    along_both(of, block, other, &detail::cosine_table::elements_of);
  }
  template <class Line>
  void along_both(block_grid const& of, std::span<float> block, std::span<float> other,
                  Line line) const {
    along_rows(of, block, other, [&](std::size_t c) { return ((*columns_).*line)(c); });
    if (of.rows == 1)
      std::ranges::copy(other, block.begin());
    else
      along_columns(of, other, block, [&](std::size_t r) { return ((*rows_).*line)(r); });
  }

  /// Writes the coefficients that are kept; NaN at the first ones if the block is not finite.
  static void keep(block_grid const& of, bool is_finite, std::span<float const> block,
                   std::span<float> magnitudes, std::span<std::byte> payload) {
    constexpr auto taken = -1.0F;
    std::ranges::transform(block, magnitudes.begin(), [](float c) { return std::abs(c); });
    for (std::size_t n = 0; n < of.kept; ++n) {
      auto at = n;
      if (is_finite) {
        at = static_cast<std::size_t>(std::ranges::max_element(magnitudes) - magnitudes.begin());
        magnitudes[at] = taken;
      }
      put_index(of, payload, n, at);
      detail::put_float(payload.subspan(of.kept * of.index_bytes()), n,
                        is_finite ? block[at] : std::numeric_limits<float>::quiet_NaN());
    }
  }
  static void put_index(block_grid const& of, std::span<std::byte> payload, std::size_t n,
                        std::size_t index) {
    payload[n * of.index_bytes()] = static_cast<std::byte>(index & 0xff);
    if (of.index_bytes() == 2) payload[n * 2 + 1] = static_cast<std::byte>(index >> 8U);
  }
  [[nodiscard]] static std::size_t index_at(block_grid const& of,
                                            std::span<std::byte const> payload, std::size_t n) {
    auto const low = std::to_integer<std::size_t>(payload[n * of.index_bytes()]);
    return of.index_bytes() == 1 ? low
                                 : low + (std::to_integer<std::size_t>(payload[n * 2 + 1]) << 8U);
  }

  /// The average of those who have sent a coefficient, in the order of the groups.
  template <class PayloadOf>
  void merge(compression_unit const& unit, std::size_t groups, PayloadOf payload_of,
             std::span<float> output) const {
    auto const grid = grid_of(unit.shape);
    auto const [block, other, senders] = memory(unit, grid);
    auto const& merged = block;  // a binding cannot be captured by all compilers
    for (std::size_t b = 0; b < grid.blocks(); ++b) {
      std::ranges::fill(block, 0.0F);
      std::ranges::fill(senders, 0.0F);
      for (std::size_t g = 0; g < groups; ++g) {
        auto const payload = payload_of(g).subspan(b * grid.bytes(), grid.bytes());
        for (std::size_t n = 0; n < grid.kept; ++n) {
          auto const at = index_at(grid, payload, n) % grid.size();
          block[at] += detail::float_at(payload.subspan(grid.kept * grid.index_bytes()), n);
          senders[at] += 1;
        }
      }
      for (std::size_t i = 0; i < block.size(); ++i)
        if (senders[i] > 1) block[i] /= senders[i];
      transform_back(grid, block, other);
      for_each_element(grid, b,
                       [&](std::size_t to, std::size_t from) { output[to] = merged[from]; });
    }
  }

  options options_;
  std::shared_ptr<detail::cosine_table const> columns_;
  std::shared_ptr<detail::cosine_table const> rows_;
};

static_assert(compressor<top_dct_compressor>);

}  // namespace fssdp
