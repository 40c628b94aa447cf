// SPDX-License-Identifier: Apache-2.0
/// Per-expert memory without its types, as used inside the collectives.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/dtype.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_types.hpp"

namespace fssdp::detail {

/// Contiguous elements.
struct element_range {
  std::byte* data = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 1;

  [[nodiscard]] std::span<std::byte> bytes() const { return {data, count * element_bytes}; }
  [[nodiscard]] element_range part(std::size_t first, std::size_t elements) const {
    return {data + first * element_bytes, elements, element_bytes};
  }
};

/// An expert_tensor of any type. Views of read-only buffers are not written to.
struct tensor_view {
  std::byte* data = nullptr;
  std::size_t slots = 0;
  std::size_t elements = 0;
  std::size_t stride = 0;
  std::size_t element_bytes = 1;
  void const* places = nullptr;  ///< a pointer for each slot, if they are allocated separately
  dtype type = dtype::fp32;
  std::size_t const* offsets = nullptr;  ///< [slots + 1], where slots have rows of elements

  [[nodiscard]] bool is_scattered() const { return places != nullptr; }
  [[nodiscard]] element_range operator[](std::size_t slot) const {
    return {begin(slot), rows(slot) * elements, element_bytes};
  }
  [[nodiscard]] std::size_t rows(std::size_t slot) const {
    return offsets == nullptr ? 1 : offsets[slot + 1] - offsets[slot];
  }
  /// From the beginning of the first slot to the end of the last; empty if slots have places.
  [[nodiscard]] element_range whole() const;
  /// Some of its slots.
  [[nodiscard]] tensor_view part(std::size_t first, std::size_t count) const;
  [[nodiscard]] any_tensor any() const {
    return {type, data, slots, elements, stride, static_cast<void* const*>(places), offsets};
  }
  /// One of its slots, as a tensor of one slot.
  [[nodiscard]] tensor_view one(std::size_t slot) const;
  /// A view with a static type.
  /// @pre T has that size, and is the type
  template <class T>
  [[nodiscard]] expert_tensor<T> as() const {
    return {reinterpret_cast<T*>(data),     slots,  elements, stride,
            static_cast<T* const*>(places), offsets};
  }

 private:
  [[nodiscard]] std::byte* begin(std::size_t slot) const {
    if (!is_scattered())
      return data + (offsets == nullptr ? slot * stride : offsets[slot] * elements) * element_bytes;
    void* place = nullptr;  // all pointers to elements have the same representation
    std::memcpy(&place, static_cast<std::byte const*>(places) + slot * sizeof(void*),
                sizeof(void*));
    return static_cast<std::byte*>(place);
  }
};

/// The tensors of a buffer as a value; the views that it was made from need not exist any more.
/// @cost no allocation for up to `in_place` tensors
class tensor_list {
 public:
  static constexpr std::size_t in_place = 6;

  tensor_list() = default;
  tensor_list(tensor_list const& other) { copy(other); }
  tensor_list(tensor_list&& other) noexcept : many_{std::move(other.many_)} { copy_few(other); }
  tensor_list& operator=(tensor_list const& other) {
    copy(other);
    return *this;
  }
  tensor_list& operator=(tensor_list&& other) noexcept {
    many_ = std::move(other.many_);
    copy_few(other);
    return *this;
  }
  ~tensor_list() = default;

  explicit tensor_list(std::span<tensor_view const> tensors);
  /// @throws argument_error if the dtype of an any_tensor is invalid
  template <tensor_memory Buffer>
  explicit tensor_list(Buffer& buffer) {
    auto const tensors = tensors_of(buffer);
    auto* next = resize(tensors.size());
    for (auto const& tensor : tensors) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(tensor.data)>>;
      *next++ = {static_cast<std::byte*>(static_cast<void*>(const_cast<T*>(tensor.data))),
                 tensor.slots,
                 tensor.elements,
                 tensor.stride,
                 element_size(tensor),
                 tensor.places,
                 type_of(tensor),
                 tensor.offsets};
    }
  }
  /// Tensors without memory, all of one type.
  tensor_list(std::span<std::size_t const> elements, dtype type);
  /// The same with a type for each tensor.
  /// @param which selects one of the dtypes
  /// @throws argument_error if it is invalid
  tensor_list(std::span<tensor_types const> tensors, dtype tensor_types::*which);

  [[nodiscard]] std::span<tensor_view const> all() const {
    return {count_ > in_place ? many_.data() : few(), count_};
  }

 private:
  /// Makes room for this many tensors, and returns the first one.
  [[nodiscard]] tensor_view* resize(std::size_t count);

  void copy(tensor_list const& other) {
    if (other.count_ > in_place) many_ = other.many_;
    copy_few(other);
  }
  void copy_few(tensor_list const& other) {
    count_ = other.count_;
    if (count_ <= in_place)
      std::memmove(few_.data(), other.few_.data(), count_ * sizeof(tensor_view));
  }
  [[nodiscard]] tensor_view* few() { return reinterpret_cast<tensor_view*>(few_.data()); }
  [[nodiscard]] tensor_view const* few() const {
    return reinterpret_cast<tensor_view const*>(few_.data());
  }

  static_assert(std::is_trivially_copyable_v<tensor_view>);

  std::size_t count_ = 0;
  /// Memory for `in_place` tensors, of which only the first `count_` are ever written or copied.
  alignas(tensor_view) std::array<std::byte, in_place * sizeof(tensor_view)> few_;
  std::vector<tensor_view> many_;
};

/// Whether any slot of one tensor shares memory with any slot of the other.
[[nodiscard]] bool overlap(tensor_view const& a, tensor_view const& b);
/// Whether any slot of a tensor shares memory with another one.
[[nodiscard]] bool overlaps_itself(tensor_view const& tensor);

/// The sizes of the tensors of one expert, from different kinds of lists.
class tensor_sizes {
 public:
  explicit tensor_sizes(std::span<std::size_t const> sizes)
      : first_{reinterpret_cast<std::byte const*>(sizes.data())},
        step_{sizeof(std::size_t)},
        count_{sizes.size()} {}
  explicit tensor_sizes(std::span<tensor_view const> tensors)
      : first_{tensors.empty() ? nullptr
                               : reinterpret_cast<std::byte const*>(&tensors.front().elements)},
        step_{sizeof(tensor_view)},
        count_{tensors.size()} {}

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t operator[](std::size_t k) const {
    return *reinterpret_cast<std::size_t const*>(first_ + k * step_);
  }

 private:
  std::byte const* first_;
  std::size_t step_;
  std::size_t count_;
};

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/memory/tensor_list_inl.hpp"
#endif
