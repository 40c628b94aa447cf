// SPDX-License-Identifier: Apache-2.0
/// Writes elements from host memory into memory of a part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/checkpoint/file_dtype.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp::detail {

/// Converts elements into the target, in steps of the target's size.
/// @pre as many elements in both; where the types differ, both are is_element
inline void place_elements(file_dtype from_type, std::span<std::byte const> from,
                           file_dtype to_type, std::span<std::byte> to, staged_target& target) {
  auto const size = element_bytes(to_type);
  auto const all = to.size() / size;
  auto const most = target.most() == 0 ? all : target.most() / size;
  for (std::size_t first = 0; first < all; first += most) {
    auto const n = std::min(most, all - first);
    auto const source =
        from.subspan(first * element_bytes(from_type), n * element_bytes(from_type));
    auto const part = to.subspan(first * size, n * size);
    auto const room = target.room_for(part);
    if (from_type == to_type)
      std::ranges::copy(source, room.begin());
    else
      convert_elements(from_type, source, to_type, room);
    target.filled(part);
  }
}

}  // namespace fssdp::detail
