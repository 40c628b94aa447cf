// SPDX-License-Identifier: Apache-2.0
/// Views of per-expert memory whose element type is known only at run time.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/core/dtype.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// An expert_tensor with its type as a value: [slots, elements] of `type`, where slot s is at
/// `data` + `s * stride` elements, or at places[s]. The collectives that accept it are in
/// fssdp/collective/any_tensors.hpp and reshard.hpp.
/// @tparam Void void, or void const for memory that is only read
template <class Void>
struct basic_any_tensor {
  dtype type = dtype::fp32;
  Void* data = nullptr;
  std::size_t slots = 0;
  std::size_t elements = 0;
  std::size_t stride = elements;  ///< distance between slots, in elements
  Void* const* places = nullptr;  ///< [slots]: must live as long as the memory it points to is used
  std::size_t const* offsets = nullptr;  ///< [slots + 1], in rows: must live as long

  template <std::same_as<void const> Const>
  requires(!std::is_const_v<Void>) constexpr operator basic_any_tensor<Const>() const {
    return {type, data, slots, elements, stride, places, offsets};
  }
};
using any_tensor = basic_any_tensor<void>;
using any_const_tensor = basic_any_tensor<void const>;

template <class Void>
[[nodiscard]] constexpr std::span<basic_any_tensor<Void> const> tensors_of(
    basic_any_tensor<Void> const& one) {
  return {&one, 1};
}

/// The tensors of an expert, each with its own type: any_tensor, or a span, array or vector of it.
template <class Buffer>
concept any_memory = tensor_memory<Buffer> && requires(Buffer& buffer) {
  { tensors_of(buffer)[0].type } -> std::convertible_to<dtype>;
  requires std::is_void_v<detail::pointee_of<Buffer>>;
};

/// A view of the same memory, with its type as a value.
template <class T>
requires std::same_as<decltype(dtype_of<std::remove_const_t<T>>), dtype const>
[[nodiscard]] auto any_tensor_of(expert_tensor<T> const& tensor) {
  using any = std::conditional_t<std::is_const_v<T>, void const, void>;
  return basic_any_tensor<any>{dtype_of<std::remove_const_t<T>>,
                               tensor.data,
                               tensor.slots,
                               tensor.elements,
                               tensor.stride,
                               reinterpret_cast<any* const*>(tensor.places),
                               tensor.offsets};
}

namespace detail {

/// The size of an element of a tensor.
/// @throws argument_error if its dtype is invalid
template <class T>
[[nodiscard]] constexpr std::size_t element_size(expert_tensor<T> const&) {
  static_assert(std::is_trivially_copyable_v<T>);
  return sizeof(T);
}
[[nodiscard]] std::size_t element_size(dtype type);
template <class Void>
[[nodiscard]] std::size_t element_size(basic_any_tensor<Void> const& tensor) {
  return element_size(tensor.type);
}

/// Some consecutive slots of a tensor.
/// @throws argument_error if its dtype is invalid
template <class Void>
[[nodiscard]] basic_any_tensor<Void> part_of(basic_any_tensor<Void> of, std::size_t first,
                                             std::size_t count) {
  using byte = std::conditional_t<std::is_const_v<Void>, std::byte const, std::byte>;
  auto const size = element_size(of);
  if (of.offsets != nullptr) of.offsets += first;
  if (of.places != nullptr)
    of.places += first;
  else if (count != 0 && of.offsets == nullptr)
    of.data = static_cast<byte*>(of.data) + first * of.stride * size;
  of.slots = count;
  return of;
}

/// The dtype of the elements of a buffer; fp32 where T is not an element type, for which it is not
/// used.
template <class T>
[[nodiscard]] constexpr dtype type_of(expert_tensor<T> const&) {
  using value = std::remove_const_t<T>;
  if constexpr (std::same_as<decltype(dtype_of<value>), dtype const>)
    return dtype_of<value>;
  else
    return dtype::fp32;
}
template <class Void>
[[nodiscard]] constexpr dtype type_of(basic_any_tensor<Void> const& tensor) {
  return tensor.type;
}

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/memory/any_tensor_inl.hpp"
#endif
