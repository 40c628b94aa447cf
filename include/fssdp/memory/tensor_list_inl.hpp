// SPDX-License-Identifier: Apache-2.0
/// Construction of tensor lists; overlap of tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/core/dtype.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"

namespace fssdp::detail {

FSSDP_INLINE tensor_view tensor_view::part(std::size_t first, std::size_t count) const {
  auto of = *this;
  of.slots = count;
  if (offsets != nullptr) of.offsets += first;
  if (is_scattered())
    of.places = static_cast<std::byte const*>(places) + first * sizeof(void*);
  else if (count != 0 && offsets == nullptr)
    of.data += first * stride * element_bytes;
  return of;
}

FSSDP_INLINE tensor_view tensor_view::one(std::size_t slot) const {
  auto of = *this;
  of.data = begin(slot);
  of.slots = 1;
  of.elements *= rows(slot);
  of.stride = of.elements;
  of.places = nullptr;
  of.offsets = nullptr;
  return of;
}

FSSDP_INLINE element_range tensor_view::whole() const {
  if (slots == 0) return {data, 0, element_bytes};
  if (offsets == nullptr) return {data, (slots - 1) * stride + elements, element_bytes};
  return {begin(0), (offsets[slots] - offsets[0]) * elements, element_bytes};
}

FSSDP_INLINE tensor_view* tensor_list::resize(std::size_t count) {
  count_ = count;
  if (count > in_place) many_.resize(count);
  return count > in_place ? many_.data() : few();
}

/// A tensor without memory.
[[nodiscard]] inline tensor_view shape_of(std::size_t elements, dtype type) {
  return {.elements = elements, .element_bytes = element_size(type), .type = type};
}

FSSDP_INLINE tensor_list::tensor_list(std::span<tensor_view const> tensors) {
  std::copy(tensors.begin(), tensors.end(), resize(tensors.size()));
}
FSSDP_INLINE tensor_list::tensor_list(std::span<std::size_t const> elements, dtype type) {
  auto* next = resize(elements.size());
  for (auto const count : elements) *next++ = shape_of(count, type);
}
FSSDP_INLINE tensor_list::tensor_list(std::span<tensor_types const> tensors,
                                      dtype tensor_types::*which) {
  auto* next = resize(tensors.size());
  for (auto const& tensor : tensors) *next++ = shape_of(tensor.elements, tensor.*which);
}

FSSDP_INLINE bool overlap(tensor_view const& a, tensor_view const& b) {
  auto const scattered = a.is_scattered() || b.is_scattered();
  if (!scattered && !overlap(a.whole().bytes(), b.whole().bytes())) return false;
  if (!scattered && a.offsets != nullptr && b.offsets != nullptr) return true;
  for (std::size_t i = 0; i < a.slots; ++i)
    for (std::size_t j = 0; j < b.slots; ++j)
      if (overlap(a[i].bytes(), b[j].bytes())) return true;
  return false;
}

FSSDP_INLINE bool overlaps_itself(tensor_view const& tensor) {
  if (!tensor.is_scattered())
    return tensor.offsets == nullptr && tensor.slots > 1 && tensor.stride < tensor.elements;
  for (std::size_t i = 0; i < tensor.slots; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(tensor[i].bytes(), tensor[j].bytes())) return true;
  return false;
}

}  // namespace fssdp::detail
