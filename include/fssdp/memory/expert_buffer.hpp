// SPDX-License-Identifier: Apache-2.0
/// Memory for experts that the host can read and write, with ownership.
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
/// contiguous, zero at first. It can be allocated by any memory resource that the host can read and
/// write; by default it is ordinary memory. Collectives and optimizers need not know. Move-only. T
/// can be any trivially copyable type.
template <class T>
class expert_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  expert_buffer() = default;

  /// @param elements the size of each tensor of one slot
  /// @param resource allocates the memory; outlives the buffer
  /// @cost one allocation of bytes_for(slots, elements), aligned to a cache line, and written once
  /// @throws argument_error if a size is too large for std::size_t, or the resource is null;
  ///         exceptions of the resource
  expert_buffer(std::size_t slots, std::span<std::size_t const> elements,
                std::pmr::memory_resource* resource = std::pmr::new_delete_resource())
      : memory_{nullptr, {.from = resource}}, tensors_(elements.size()), views_(elements.size()) {
    detail::require(resource != nullptr, "expert_buffer: the resource is null; expected one");
    for (std::size_t k = 0; k < elements.size(); ++k) tensors_[k].elements = elements[k];
    resize(slots);
  }

  /// The same where experts differ in size: slot s of a tensor has offsets[s + 1] - offsets[s] rows
  /// of its `elements`; slots are contiguous.
  /// @param offsets [slots + 1], ascending, such as transfer_plan::owned_offsets
  expert_buffer(std::span<std::size_t const> offsets, std::span<std::size_t const> elements,
                std::pmr::memory_resource* resource = std::pmr::new_delete_resource())
      : expert_buffer{offsets.empty() ? 0 : offsets.back() - offsets.front(), elements, resource} {
    detail::require(!offsets.empty(),
                    "expert_buffer: offsets is empty; expected one, and one more for each slot");
    offsets_.assign(offsets.begin(), offsets.end());
    for (auto& offset : offsets_) offset -= offsets.front();
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      tensors_[k].slots = offsets_.size() - 1;
      tensors_[k].offsets = offsets_.data();
      views_[k] = tensors_[k];
    }
  }

  /// Sets the number of slots; their contents are unspecified afterwards. Allocates only to grow
  /// beyond the largest size so far, and then frees the old memory.
  /// @throws as the constructor, and if slots have rows; then nothing has changed
  void resize(std::size_t slots) {
    detail::require(offsets_.empty(), "expert_buffer: resize to ", slots,
                    " slots of a buffer with offsets; expected slots of equal size");
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

  /// The bytes of a buffer of this shape.
  /// @throws argument_error as the constructor
  [[nodiscard]] static std::size_t bytes_for(std::size_t slots,
                                             std::span<std::size_t const> elements) {
    auto bytes = std::size_t{0};
    for (auto const size : elements) bytes = detail::add_bytes(bytes, tensor_bytes(slots, size));
    return bytes;
  }

  [[nodiscard]] std::size_t slots() const { return tensors_.empty() ? 0 : tensors_.front().slots; }
  /// The allocated bytes, including those of an earlier, larger size.
  [[nodiscard]] std::size_t bytes() const { return detail::allocated_bytes(memory_); }
  /// The resource that allocates the memory.
  [[nodiscard]] std::pmr::memory_resource* resource() const { return memory_.get_deleter().from; }

 private:
  static std::size_t tensor_bytes(std::size_t slots, std::size_t elements) {
    return detail::byte_count(slots, elements, sizeof(T));
  }

  detail::aligned_memory memory_;
  std::vector<expert_tensor<T>> tensors_;
  std::vector<expert_tensor<T const>> views_;  // the same, read-only
  std::vector<std::size_t> offsets_;           // in rows, where slots differ in size
};

}  // namespace fssdp
