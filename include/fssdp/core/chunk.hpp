// SPDX-License-Identifier: Apache-2.0
/// Chunks: slices of experts, the units of ownership and communication.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <span>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// A slice of an expert. A whole expert is its only slice: where experts are whole, an expert_id
/// converts to a chunk; where they are sliced, it converts to the first slice.
struct chunk_id {
  expert_id expert;
  slice_id slice;

  constexpr chunk_id() = default;
  constexpr chunk_id(expert_id of) : expert{of} {}
  constexpr chunk_id(expert_id of, slice_id which) : expert{of}, slice{which} {}
  friend constexpr bool operator==(chunk_id const&, chunk_id const&) = default;  // for nvcc
  friend constexpr auto operator<=>(chunk_id const&, chunk_id const&) = default;
};

/// A piece of a chunk: the unit of a transfer. A chunk that is not cut is its only piece.
struct piece_id {
  chunk_id chunk;
  int index = 0;

  constexpr piece_id() = default;
  constexpr piece_id(chunk_id of, int which = 0) : chunk{of}, index{which} {}
  friend constexpr bool operator==(piece_id const&, piece_id const&) = default;  // for nvcc
  friend constexpr auto operator<=>(piece_id const&, piece_id const&) = default;
};

/// Consecutive chunks in canonical order: by expert, then by slice. The n-th chunk is slice n %
/// slices of expert n / slices.
class chunk_range {
 public:
  class iterator {
   public:
    using value_type = chunk_id;
    using difference_type = std::ptrdiff_t;
    constexpr iterator() = default;
    constexpr iterator(int at, int slices) : at_{at}, slices_{slices} {}
    constexpr chunk_id operator*() const {
      return {expert_id{at_ / slices_}, slice_id{at_ % slices_}};
    }
    constexpr iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr iterator operator++(int) { return {at_++, slices_}; }
    friend constexpr bool operator==(iterator, iterator) = default;

   private:
    int at_ = 0;
    int slices_ = 1;
  };

  /// The chunks first, first + 1, ..., last - 1.
  constexpr chunk_range(int first, int last, int slices)
      : first_{first}, last_{last}, slices_{slices} {}
  [[nodiscard]] constexpr iterator begin() const { return {first_, slices_}; }
  [[nodiscard]] constexpr iterator end() const { return {last_, slices_}; }
  [[nodiscard]] constexpr std::size_t size() const {
    return static_cast<std::size_t>(last_ - first_);
  }
  [[nodiscard]] constexpr bool empty() const { return first_ == last_; }

 private:
  int first_;
  int last_;
  int slices_;
};

/// The elements that a slice of a tensor has room for: all slices have the same size, except that
/// the last ones may be shorter or empty.
[[nodiscard]] constexpr std::size_t slice_elements(std::size_t elements, int slices) {
  auto const parts = static_cast<std::size_t>(slices);
  return elements / parts + (elements % parts == 0 ? 0 : 1);
}

/// The number of elements of a chunk, over all tensors of an expert.
/// @param elements the size of each
[[nodiscard]] constexpr std::size_t chunk_elements(std::span<std::size_t const> elements,
                                                   int slices) {
  auto sum = std::size_t{0};
  for (auto const whole : elements) sum += slice_elements(whole, slices);
  return sum;
}

/// The part of a whole tensor that is a slice.
struct slice_extent {
  std::size_t first = 0;
  std::size_t elements = 0;

  constexpr slice_extent(std::size_t whole, slice_id slice, int slices)
      : first{std::min(whole, slice.index() * slice_elements(whole, slices))},
        elements{std::min(slice_elements(whole, slices), whole - first)} {}
};

/// The largest number of pieces of a chunk.
inline constexpr int most_pieces = 1 << 16;

/// Pieces begin at multiples of this many elements. As each piece is encoded by itself, this should
/// be a multiple of a codec's block, so that no block is split.
inline constexpr std::size_t piece_granularity = 256;

/// The elements that a piece of a slice has room for; the last pieces may be shorter or empty.
[[nodiscard]] constexpr std::size_t piece_elements(std::size_t slice, int pieces) {
  if (pieces == 1) return slice;
  auto const blocks = slice_elements(slice, pieces) / piece_granularity +
                      (slice_elements(slice, pieces) % piece_granularity == 0 ? 0 : 1);
  return std::min(slice, blocks * piece_granularity);
}

/// The part of a slice that is a piece.
struct piece_extent {
  std::size_t first = 0;
  std::size_t elements = 0;

  constexpr piece_extent(std::size_t slice, int piece, int pieces)
      : first{std::min(slice, static_cast<std::size_t>(piece) * piece_elements(slice, pieces))},
        elements{std::min(piece_elements(slice, pieces), slice - first)} {}
};

}  // namespace fssdp
