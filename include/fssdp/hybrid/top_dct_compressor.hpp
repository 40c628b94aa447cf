// SPDX-License-Identifier: Apache-2.0
/// The largest coefficients of a cosine transform: the fast components of a momentum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/cosine_table.hpp"
#include "fssdp/hybrid/kept_coefficients.hpp"
#include "fssdp/hybrid/weighted_lines.hpp"

namespace fssdp {

/// Sends for every block the `kept` coefficients of largest magnitude, each with its index; of
/// equal ones the first. Each coefficient is averaged over the groups that have sent it; all others
/// are 0.
///
/// A matrix is divided into blocks of rows x columns, and the last ones are padded with zeros. A
/// unit of one row, or any unit if `rows` is 1, is one run, divided into blocks of `columns`.
/// Blocks are counted from the start of the unit. A block with an element that is not finite
/// becomes NaN in all groups, and so does one with elements near the largest float, whose sums
/// overflow.
///
/// An index has 1 byte if a block has at most 256 elements, otherwise 2; a value has 4. So the
/// default sends 20 of 256 bytes, 1/12.8; blocks of 64 x 64 with 32 kept coefficients 1/85. Blocks
/// of 1 x 64 with 32 kept coefficients, as in the published code, save only 3/8 with these indices,
/// and nothing with the 8-byte indices of that code.
/// @cost for columns = 2^k about columns / 3 multiplications per element, twice that in two
///       dimensions; `kept` comparisons per element, or a selection; `kept` multiplications per
///       element and group to decode
/// (DeMo, arXiv 2411.19870; FlexDeMo, 2502.06728. Where paper and code differ, this follows the
/// code)
class top_dct_compressor {
 public:
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  struct options {
    std::size_t rows = 1;
    std::size_t columns = 64;
    std::size_t kept = 4;
  };

  top_dct_compressor() : top_dct_compressor{options{}} {}
  /// @throws argument_error unless a block has 1 to 65536 elements, and keeps at least 1
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
    return detail::checked_product("top_dct_compressor", grid.blocks(), grid.kept.bytes());
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const {
    auto const& [rows, columns, kept] = options_;
    auto const to_encode = 2 * lanes * std::max(rows, columns) + 3 * rows * columns;
    auto const to_merge = 4 * rows * columns + rows * detail::whole_lanes(columns) + 3 * rows;
    return std::max(to_encode, to_merge);
  }
  [[nodiscard]] bool needs_residual(unit_shape) const { return true; }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const>, std::span<std::byte> payload) const {
    auto const grid = grid_of(unit.shape);
    if (grid.rows == 1)
      encode_runs(grid, encoding_of(unit.scratch, options_), input, payload);
    else
      encode_blocks(grid, encoding_of(unit.scratch, options_), input, payload);
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
  static constexpr auto lanes = detail::lanes;
  /// If more are kept, a selection is faster than repeated searches.
  static constexpr auto most_searches = std::size_t{32};

  /// The elements of a block without padding.
  struct block_part {
    std::size_t first;  // in the unit
    std::size_t rows;
    std::size_t columns;
  };
  /// The division of a unit into blocks.
  struct block_grid {
    std::size_t unit_rows;
    std::size_t unit_columns;
    std::size_t rows;  // of a block
    std::size_t columns;
    detail::kept_coefficients kept;

    [[nodiscard]] std::size_t across() const { return up(unit_columns, columns); }
    [[nodiscard]] std::size_t blocks() const { return up(unit_rows, rows) * across(); }
    [[nodiscard]] std::size_t stride() const { return detail::whole_lanes(columns); }
    [[nodiscard]] block_part part(std::size_t b) const {
      auto const top = b / across() * rows;
      auto const left = b % across() * columns;
      return {.first = top * unit_columns + left,
              .rows = std::min(rows, unit_rows - top),
              .columns = std::min(columns, unit_columns - left)};
    }
    [[nodiscard]] std::span<std::byte> payload_of(std::size_t b, std::span<std::byte> all) const {
      return all.subspan(b * kept.bytes(), kept.bytes());
    }

   private:
    [[nodiscard]] static std::size_t up(std::size_t a, std::size_t b) {
      return a / b + (a % b == 0 ? 0 : 1);
    }
  };
  /// Divides scratch memory.
  class memory_of_unit {
   public:
    explicit memory_of_unit(std::span<float> all) : rest_{all} {}
    [[nodiscard]] std::span<float> take(std::size_t elements) {
      auto const part = rest_.first(elements);
      rest_ = rest_.subspan(elements);
      return part;
    }

   private:
    std::span<float> rest_;
  };
  struct encoding_memory {
    std::span<float> elements;      // of interleaved lines
    std::span<float> coefficients;  // the same
    std::span<float> block;         // [rows, columns]
    std::span<float> magnitudes;
    std::span<float> scratch;
  };
  struct merging_memory {
    std::span<float> sums;     // of each coefficient
    std::span<float> senders;  // how many groups have sent it; 0 between blocks, as are the sums
    std::span<float> places;   // the coefficients that any group has sent
    std::span<float> values;
    std::span<float> lines;  // [rows, stride]: rows with coefficients, the even ones first
    std::span<float> order;  // the row of each line
    std::span<float> slots;  // the line of each row
    std::span<float> weights;
  };
  [[nodiscard]] static encoding_memory encoding_of(std::span<float> scratch, options const& of) {
    auto memory = memory_of_unit{scratch};
    auto const size = of.rows * of.columns;
    auto const lines = lanes * std::max(of.rows, of.columns);
    return {memory.take(lines), memory.take(lines), memory.take(size), memory.take(size),
            memory.take(size)};
  }
  [[nodiscard]] static merging_memory merging_of(std::span<float> scratch, options const& of) {
    auto memory = memory_of_unit{scratch};
    auto const size = of.rows * of.columns;
    return {memory.take(size),
            memory.take(size),
            memory.take(size),
            memory.take(size),
            memory.take(of.rows * detail::whole_lanes(of.columns)),
            memory.take(of.rows),
            memory.take(of.rows),
            memory.take(of.rows)};
  }

  [[nodiscard]] block_grid grid_of(unit_shape shape) const {
    auto const is_run = shape.rows == 1 || options_.rows == 1;
    auto const rows = is_run ? std::size_t{1} : options_.rows;
    auto const size = rows * options_.columns;
    return {is_run ? std::size_t{shape.elements() == 0 ? 0U : 1U} : shape.rows,
            is_run ? shape.elements() : shape.columns,
            rows,
            options_.columns,
            {.size = size, .kept = std::min(options_.kept, size)}};
  }

  static void store_line(std::span<float const> lines, std::size_t l, std::span<float> line) {
    for (std::size_t c = 0; c < line.size(); ++c) line[c] = lines[c * lanes + l];
  }

  /// Blocks of one row, several together.
  void encode_runs(block_grid const& grid, encoding_memory const& memory,
                   std::span<float const> input, std::span<std::byte> payload) const {
    auto const& kept = grid.kept;
    for (std::size_t first = 0; first < grid.blocks(); first += lanes) {
      auto const blocks = std::min(lanes, grid.blocks() - first);
      detail::load_lines(memory.elements, grid.columns, [&](std::size_t l) {
        auto const part = l < blocks ? grid.part(first + l) : block_part{};
        return input.subspan(part.first, part.columns);
      });
      columns_->transform(memory.elements, memory.coefficients);
      auto const payload_of = [&](std::size_t l) { return grid.payload_of(first + l, payload); };
      if (kept.kept <= most_searches) {
        kept.put_largest_of_lanes(memory.coefficients, memory.elements, blocks, payload_of);
        continue;
      }
      for (std::size_t l = 0; l < blocks; ++l) {
        auto const block = memory.block.first(kept.size);
        store_line(memory.coefficients, l, block);
        kept.put_largest(block, memory.magnitudes.first(kept.size), memory.scratch, payload_of(l));
      }
    }
  }
  /// Blocks of several rows: transforms rows, then columns, several together.
  void encode_blocks(block_grid const& grid, encoding_memory const& memory,
                     std::span<float const> input, std::span<std::byte> payload) const {
    for (std::size_t b = 0; b < grid.blocks(); ++b) {
      auto const part = grid.part(b);
      for (std::size_t top = 0; top < grid.rows; top += lanes) {
        detail::load_lines(memory.elements, grid.columns, [&](std::size_t l) {
          auto const at = part.first + (top + l) * grid.unit_columns;
          return top + l < part.rows ? input.subspan(at, part.columns) : std::span<float const>{};
        });
        columns_->transform(memory.elements, memory.coefficients);
        for (std::size_t l = 0; l < std::min(lanes, grid.rows - top); ++l)
          store_line(memory.coefficients, l,
                     memory.block.subspan((top + l) * grid.columns, grid.columns));
      }
      for (std::size_t left = 0; left < grid.columns; left += lanes) {
        auto const columns = std::min(lanes, grid.columns - left);
        for (std::size_t r = 0; r < grid.rows; ++r)
          std::copy_n(&memory.block[r * grid.columns + left], columns, &memory.elements[r * lanes]);
        rows_->transform(memory.elements, memory.coefficients);
        for (std::size_t r = 0; r < grid.rows; ++r)
          std::copy_n(&memory.coefficients[r * lanes], columns,
                      &memory.block[r * grid.columns + left]);
      }
      grid.kept.put_largest(memory.block, memory.magnitudes, memory.scratch,
                            grid.payload_of(b, payload));
    }
  }

  /// The average of each coefficient over the groups that have sent it, in the order of the groups.
  template <class PayloadOf>
  void merge(compression_unit const& unit, std::size_t groups, PayloadOf payload_of,
             std::span<float> output) const {
    auto const grid = grid_of(unit.shape);
    auto const memory = merging_of(unit.scratch, options_);
    std::ranges::fill(memory.sums, 0.0F);
    std::ranges::fill(memory.senders, 0.0F);
    for (std::size_t b = 0; b < grid.blocks(); ++b) {
      auto count = std::size_t{0};
      for (std::size_t g = 0; g < groups; ++g) {
        auto const payload = payload_of(g).subspan(b * grid.kept.bytes(), grid.kept.bytes());
        for (std::size_t n = 0; n < grid.kept.kept; ++n) {
          auto const at = grid.kept.index_at(payload, n);
          if (memory.senders[at] == 0) memory.places[count++] = static_cast<float>(at);
          memory.sums[at] += grid.kept.value_at(payload, n);
          memory.senders[at] += 1;
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        auto const at = place(memory.places, i);
        memory.values[i] = memory.sums[at] / memory.senders[at];
        memory.sums[at] = memory.senders[at] = 0;
      }
      if (grid.rows == 1)
        restore_run(memory, count, grid.part(b), output);
      else
        restore_block(grid, memory, count, grid.part(b), output);
    }
  }
  /// Indices are stored as floats, which represent all of them exactly.
  [[nodiscard]] static std::size_t place(std::span<float const> places, std::size_t i) {
    return static_cast<std::size_t>(places[i]);
  }
  void restore_run(merging_memory const& from, std::size_t count, block_part const& part,
                   std::span<float> output) const {
    for (std::size_t c = 0; c < part.columns; c += lanes) {
      auto const sum = detail::add_lines(
          detail::lane_array{}, count, [&](std::size_t i) { return from.values[i]; },
          [&](std::size_t i) { return &columns_->elements_of(place(from.places, i))[c]; });
      std::copy_n(sum.begin(), std::min(lanes, part.columns - c), &output[part.first + c]);
    }
  }
  void restore_block(block_grid const& grid, merging_memory const& from, std::size_t count,
                     block_part const& part, std::span<float> output) const {
    auto const lines = restore_rows(grid, from, count);
    // Even coefficients have equal contributions at mirrored elements, odd ones opposite.
    for (std::size_t r = 0; r < (grid.rows + 1) / 2; ++r) {
      auto const mirror = grid.rows - 1 - r;
      for (std::size_t i = 0; i < lines.all; ++i)
        from.weights[i] = rows_->elements_of(place(from.order, i))[r];
      for (std::size_t c = 0; c < part.columns; c += lanes) {
        auto const columns = std::min(lanes, part.columns - c);
        auto const sum_of = [&](std::size_t first, std::size_t last) {
          return detail::add_lines(
              detail::lane_array{}, last - first,
              [&](std::size_t i) { return from.weights[first + i]; },
              [&](std::size_t i) { return &from.lines[(first + i) * grid.stride() + c]; });
        };
        auto const even = sum_of(0, lines.even);
        auto const odd = sum_of(lines.even, lines.all);
        auto* const to = &output[part.first + c];
        if (r < part.rows)
          for (std::size_t l = 0; l < columns; ++l)
            to[r * grid.unit_columns + l] = even[l] + odd[l];
        if (mirror != r && mirror < part.rows)
          for (std::size_t l = 0; l < columns; ++l)
            to[mirror * grid.unit_columns + l] = even[l] - odd[l];
      }
    }
  }
  struct line_counts {
    std::size_t even;
    std::size_t all;
  };
  /// The rows of coefficients that are not all 0, transformed back along rows.
  line_counts restore_rows(block_grid const& grid, merging_memory const& to,
                           std::size_t count) const {
    constexpr auto none = -1.0F;
    constexpr auto some = 0.0F;
    std::ranges::fill(to.slots, none);
    for (std::size_t i = 0; i < count; ++i) to.slots[place(to.places, i) / grid.columns] = some;
    auto counts = line_counts{};
    for (std::size_t parity = 0; parity < 2; ++parity) {
      for (auto r = parity; r < grid.rows; r += 2) {
        if (to.slots[r] == none) continue;
        to.slots[r] = static_cast<float>(counts.all);
        to.order[counts.all++] = static_cast<float>(r);
      }
      if (parity == 0) counts.even = counts.all;
    }
    std::ranges::fill(to.lines.first(counts.all * grid.stride()), 0.0F);
    for (std::size_t i = 0; i < count; ++i) {
      auto const at = place(to.places, i);
      auto const elements = columns_->elements_of(at % grid.columns);
      auto const slot = place(to.slots, at / grid.columns);
      auto const line = to.lines.subspan(slot * grid.stride(), grid.stride());
      for (std::size_t c = 0; c < line.size(); ++c) line[c] += to.values[i] * elements[c];
    }
    return counts;
  }

  options options_;
  std::shared_ptr<detail::cosine_table const> columns_;
  std::shared_ptr<detail::cosine_table const> rows_;
};

static_assert(compressor<top_dct_compressor>);

}  // namespace fssdp
