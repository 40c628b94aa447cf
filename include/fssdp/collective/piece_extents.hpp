// SPDX-License-Identifier: Apache-2.0
/// Where the pieces of a plan lie in the tensors of an expert.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/slot_array.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Knows the tensors of a whole expert by their sizes, or by the sizes of one row.
class piece_extents {
 public:
  /// @pre the plan outlives it
  piece_extents(transfer_plan const& plan, tensor_sizes whole) : plan_{&plan}, whole_{whole} {}

  [[nodiscard]] std::size_t tensors() const { return whole_.size(); }
  /// A slice of tensor k, without padding.
  [[nodiscard]] slice_extent slice(std::size_t k, chunk_id chunk) const {
    return {whole_[k] * plan_->rows(chunk.expert), chunk.slice, plan_->slices()};
  }
  /// The elements of a piece in tensor k.
  [[nodiscard]] std::size_t elements(std::size_t k, piece_id piece) const {
    return within_slice(k, piece).elements;
  }

  /// A piece within a slice of tensor k, and within a whole expert.
  [[nodiscard]] element_range cut_slice(element_range const& slice, std::size_t k,
                                        piece_id piece) const {
    auto const part = within_slice(k, piece);
    return slice.part(part.first, part.elements);
  }
  [[nodiscard]] element_range cut_expert(element_range const& expert, std::size_t k,
                                         piece_id piece) const {
    auto const part = within_slice(k, piece);
    return expert.part(slice(k, piece.chunk).first + part.first, part.elements);
  }

  /// Whether a chunk has the largest size that any chunk has, in all tensors. Then consecutive
  /// pieces of it fill their slots, all but the last, and are contiguous.
  [[nodiscard]] bool fills_slots(chunk_id chunk) const {
    for (std::size_t k = 0; k < tensors(); ++k)
      if (slice(k, chunk).elements != slice_room(k)) return false;
    return true;
  }

  /// The number of elements of the largest slice of tensor k, and of the largest piece.
  [[nodiscard]] std::size_t slice_room(std::size_t k) const {
    return slice_elements(whole_[k] * plan_->most_rows(), plan_->slices());
  }
  [[nodiscard]] std::size_t piece_room(std::size_t k) const {
    return piece_elements(slice_room(k), plan_->pieces());
  }

 private:
  [[nodiscard]] piece_extent within_slice(std::size_t k, piece_id piece) const {
    return {slice(k, piece.chunk).elements, piece.index, plan_->pieces()};
  }

  transfer_plan const* plan_;
  tensor_sizes whole_;
};

/// The sizes in bytes of one element of each tensor, or of the sums of such elements.
class element_sizes {
 public:
  [[nodiscard]] static element_sizes of(std::span<tensor_view const> tensors) {
    return {tensors, false};
  }
  [[nodiscard]] static element_sizes of_sums(std::span<tensor_view const> partials) {
    return {partials, true};
  }

  [[nodiscard]] std::size_t operator[](std::size_t k) const {
    auto const& tensor = tensors_[k];
    return of_sums_ ? bytes_of(accumulator_of(tensor.type)) : tensor.element_bytes;
  }
  /// The largest of them; 1 if there are no tensors.
  [[nodiscard]] std::size_t most() const {
    auto most = std::size_t{1};
    for (std::size_t k = 0; k < tensors_.size(); ++k) most = std::max(most, (*this)[k]);
    return most;
  }

 private:
  element_sizes(std::span<tensor_view const> tensors, bool of_sums)
      : tensors_{tensors}, of_sums_{of_sums} {}

  std::span<tensor_view const> tensors_;
  bool of_sums_;
};

/// Slots for pieces of such elements.
[[nodiscard]] inline auto element_slots(std::size_t slots, piece_extents const& extents,
                                        element_sizes sizes) {
  return slot_array{slots, extents.tensors(), [extents, sizes](std::size_t k) {
                      return unpadded_bytes(1, extents.piece_room(k), sizes[k]);
                    }};
}

/// Slots for the payloads of pieces.
[[nodiscard]] inline auto payload_slots(std::size_t slots, piece_extents const& extents,
                                        payload_codec const& coder) {
  return slot_array{slots, extents.tensors(), [extents, coder](std::size_t k) {
                      return coder.encoded_bytes(extents.piece_room(k));
                    }};
}

}  // namespace fssdp::detail
