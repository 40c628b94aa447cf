// SPDX-License-Identifier: Apache-2.0
/// Owning per-expert memory that the host can read and write.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// Memory for the tensors of a number of experts or slices: per tensor [slots, elements],
/// contiguous, zero at first. Where it lies is a property of the buffer: it takes memory from any
/// resource that the host can read and write, ordinary memory by default; collectives and
/// optimizers cannot tell. Moves, does not copy. Any trivially copyable T will do.
template <class T>
class expert_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  expert_buffer() = default;

  /// @param elements the size of each tensor of one slot
  /// @param resource where the memory comes from, and goes back to; it outlives the buffer
  /// @cost one allocation of bytes_for(slots, elements), at a cache line, all of it written
  /// @throws argument_error if the bytes are too many to be counted, or there is no resource; what
  ///         it throws
  expert_buffer(std::size_t slots, std::span<std::size_t const> elements,
                std::pmr::memory_resource* resource = std::pmr::new_delete_resource())
      : memory_{nullptr, {.from = resource}}, tensors_(elements.size()), views_(elements.size()) {
    detail::require(resource != nullptr, "expert_buffer: no resource; expected one for its memory");
    for (std::size_t k = 0; k < elements.size(); ++k) tensors_[k].elements = elements[k];
    resize(slots);
  }

  /// The same where experts differ in size: slot s of a tensor has offsets[s + 1] - offsets[s] rows
  /// of its `elements`, one slot right behind the other.
  /// @param offsets [slots + 1], ascending, as of transfer_plan::owned_offsets
  expert_buffer(std::span<std::size_t const> offsets, std::span<std::size_t const> elements,
                std::pmr::memory_resource* resource = std::pmr::new_delete_resource())
      : expert_buffer{offsets.empty() ? 0 : offsets.back() - offsets.front(), elements, resource} {
    detail::require(!offsets.empty(),
                    "expert_buffer: no offsets; expected one, and one for each slot");
    offsets_.assign(offsets.begin(), offsets.end());
    for (auto& offset : offsets_) offset -= offsets.front();
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      tensors_[k].slots = offsets_.size() - 1;
      tensors_[k].offsets = offsets_.data();
      views_[k] = tensors_[k];
    }
  }

  /// Changes the number of slots. Allocates only to grow beyond the largest size so far, and then
  /// gives the old memory back; what the slots hold afterwards is unspecified.
  /// @throws as the constructor, and where slots have rows; then nothing has changed
  void resize(std::size_t slots) {
    detail::require(offsets_.empty(), "expert_buffer: resized to ", slots,
                    " slots; expected slots of equal size");
    auto needed = std::size_t{0};
    for (auto const& tensor : tensors_)
      needed = detail::add_bytes(needed, tensor_bytes(slots, tensor.elements));
    if (needed > bytes()) {
      memory_ = detail::allocate_aligned(needed, resource());
      std::uninitialized_value_construct_n(reinterpret_cast<T*>(memory_.get()), needed / sizeof(T));
    }
    auto* data = memory_.get();
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      auto& tensor = tensors_[k];
      tensor = {reinterpret_cast<T*>(data), slots, tensor.elements, tensor.elements};
      views_[k] = tensor;
      data += tensor_bytes(slots, tensor.elements);
    }
  }

  [[nodiscard]] std::span<expert_tensor<T> const> tensors() {
    return {tensors_.data(), tensors_.size()};
  }
  [[nodiscard]] std::span<expert_tensor<T const> const> tensors() const {
    return {views_.data(), views_.size()};
  }

  /// The bytes that a buffer of this shape takes.
  /// @throws argument_error as the constructor
  [[nodiscard]] static std::size_t bytes_for(std::size_t slots,
                                             std::span<std::size_t const> elements) {
    auto bytes = std::size_t{0};
    for (auto const size : elements) bytes = detail::add_bytes(bytes, tensor_bytes(slots, size));
    return bytes;
  }

  [[nodiscard]] std::size_t slots() const { return tensors_.empty() ? 0 : tensors_.front().slots; }
  /// Bytes of memory taken, including room kept from an earlier, larger size.
  [[nodiscard]] std::size_t bytes() const { return detail::allocated_bytes(memory_); }
  /// Where the memory comes from.
  [[nodiscard]] std::pmr::memory_resource* resource() const { return memory_.get_deleter().from; }

 private:
  static std::size_t tensor_bytes(std::size_t slots, std::size_t elements) {
    return detail::byte_count(slots, elements, sizeof(T));
  }

  detail::aligned_memory memory_;
  std::vector<expert_tensor<T>> tensors_;
  std::vector<expert_tensor<T const>> views_;  // the same, for readers
  std::vector<std::size_t> offsets_;           // in rows, where slots differ in size
};

}  // namespace fssdp
