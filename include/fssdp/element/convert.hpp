// SPDX-License-Identifier: Apache-2.0
/// Converts elements from one type to another.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/element/converted.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp {

/// to[i] = from[i], rounded once, to nearest even. A finite number that is too large becomes
/// infinity, or in fp8 the largest number.
/// @pre both have equally many elements; they do not overlap
/// @cost reads and writes every element once, bypassing the caches for large copies of equal types;
///       no allocation
template <class From, class To>
requires std::is_same_v<From, To> ||
    (element<From>&& element<To>)void convert(std::span<From const> from, std::span<To> to) {
  if constexpr (std::is_same_v<From, To>) {
    static_assert(std::is_trivially_copyable_v<From>);
    copy_bytes(std::as_writable_bytes(to), std::as_bytes(from));
  } else if constexpr (detail::any_foreign<From, To>) {
    convert(detail::as_native(from), detail::as_native(to));
  } else {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = detail::converted<To>(from[i]);
  }
}

}  // namespace fssdp
