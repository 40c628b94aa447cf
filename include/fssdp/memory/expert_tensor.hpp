// SPDX-License-Identifier: Apache-2.0
/// Views of per-expert memory: the `from` and `to` of collectives.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace fssdp {

namespace detail {

/// The address of a slot in a table whose pointers may be of another type, as in `bytes_of`.
template <class T>
[[nodiscard]] constexpr T* place_of(T* const* places, std::size_t slot) {
  if (std::is_constant_evaluated()) return places[slot];
  T* place = nullptr;
  std::memcpy(&place, static_cast<void const*>(places + slot), sizeof place);
  return place;
}

}  // namespace detail

/// One tensor of all experts of a buffer: [slots, elements], slot s at data + s * stride. If slots
/// are allocated separately, as the parameters of modules are, slot s is at places[s], and `data`
/// and `stride` are unused. `places` is read whenever the slots are, so its entries may change
/// between calls.
///
/// Where experts differ in size, slot s has the rows offsets[s], ..., offsets[s + 1] - 1 of
/// `elements` each: at data + offsets[s] * elements, contiguous, or at places[s]. The offsets are
/// those of a plan with rows (transfer_plan::with_rows).
template <class T>
struct expert_tensor {
  T* data = nullptr;
  std::size_t slots = 0;
  std::size_t elements = 0;
  std::size_t stride = elements;  ///< distance between slots, in elements
  T* const* places = nullptr;     ///< [slots]: must live as long as the memory it points to is used
  std::size_t const* offsets = nullptr;  ///< [slots + 1], in rows: must live as long

  /// The elements of one slot.
  [[nodiscard]] constexpr std::span<T> operator[](std::size_t slot) const {
    auto const begin = offsets != nullptr ? offsets[slot] * elements : slot * stride;
    auto const rows = offsets != nullptr ? offsets[slot + 1] - offsets[slot] : 1;
    return {places != nullptr ? detail::place_of(places, slot) : data + begin, rows * elements};
  }
  template <std::same_as<T const> Const>  // a template, as nvcc would warn where T is const
  requires(!std::is_const_v<T>) constexpr operator expert_tensor<Const>() const {
    return {data, slots, elements, stride, places, offsets};
  }
};

namespace detail {

/// A list as a span, to reduce the number of instantiations.
template <class T>
[[nodiscard]] constexpr std::span<T> as_span(std::span<T> list) {
  return list;
}
template <class List>
[[nodiscard]] constexpr auto as_span(List&& list) {
  return std::span{std::forward<List>(list)};
}

}  // namespace detail

/// A buffer of experts, each of which may have several tensors (w1, b1, w2, ...). These travel
/// together, without packing. Any type whose member `tensors()` returns a span or array of
/// expert_tensor, or a single one.
template <class Buffer>
requires requires(Buffer& buffer) { buffer.tensors(); }
[[nodiscard]] constexpr auto tensors_of(Buffer& buffer) {
  return detail::as_span(buffer.tensors());
}
template <class T>
[[nodiscard]] constexpr std::span<expert_tensor<T> const> tensors_of(expert_tensor<T> const& one) {
  return {&one, 1};
}
template <class Range>
requires(!requires(Range & range) { range.tensors(); }) && requires(Range& range) {
  range.data();
  range.data()->stride;
}
[[nodiscard]] constexpr auto tensors_of(Range& range) {
  return std::span{std::as_const(range).data(), range.size()};
}

/// A type from which per-expert memory can be read.
template <class Buffer>
concept tensor_memory = requires(Buffer& buffer) {
  tensors_of(buffer)[0].data;
  tensors_of(buffer)[0].stride;
};

namespace detail {

/// The type that the tensors of a buffer point to.
template <tensor_memory Buffer>
using pointee_of = std::remove_pointer_t<decltype(tensors_of(std::declval<Buffer&>())[0].data)>;

}  // namespace detail

/// A buffer whose tensors all have one element type.
template <class Buffer>
concept expert_memory = tensor_memory<Buffer> && !std::is_void_v<detail::pointee_of<Buffer>>;

/// The element type of a buffer, without const.
template <expert_memory Buffer>
using element_of = std::remove_cv_t<detail::pointee_of<Buffer>>;

/// Whether a buffer is read-only.
template <tensor_memory Buffer>
inline constexpr bool is_read_only = std::is_const_v<detail::pointee_of<Buffer>>;

namespace detail {

/// Some consecutive slots of a tensor.
template <class T>
[[nodiscard]] constexpr expert_tensor<T> part_of(expert_tensor<T> of, std::size_t first,
                                                 std::size_t count) {
  if (of.offsets != nullptr) of.offsets += first;
  if (of.places != nullptr)
    of.places += first;
  else if (count != 0 && of.offsets == nullptr)
    of.data += first * of.stride;
  of.slots = count;
  return of;
}

/// Whether two blocks of memory have a byte in common.
[[nodiscard]] bool overlap(std::span<std::byte const> x, std::span<std::byte const> y);

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/memory/expert_tensor_inl.hpp"
#endif
