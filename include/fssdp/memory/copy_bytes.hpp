// SPDX-License-Identifier: Apache-2.0
/// Copies bytes; bypasses the caches for large copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/stream_lines.hpp"

namespace fssdp {

namespace detail {

/// Copies of this size or larger bypass the caches.
inline constexpr std::size_t past_caches = std::size_t{1} << 20U;

/// The bytes from an address to the next cache line.
[[nodiscard]] inline std::size_t bytes_to_line(void const* address) {
  return padded(reinterpret_cast<std::uintptr_t>(address)) -
         reinterpret_cast<std::uintptr_t>(address);
}

/// Copies with stores that bypass the caches.
/// @pre not empty; as copy_bytes
inline void copy_past_caches(std::span<std::byte> to, std::span<std::byte const> from) {
  auto const head = std::min(bytes_to_line(to.data()), from.size());
  auto const lines = (from.size() - head) / cache_line * cache_line;
  auto const ends = head + lines;
  std::memcpy(to.data(), from.data(), head);
  stream_lines(to.data() + head, from.data() + head, lines);
  std::memcpy(to.data() + ends, from.data() + ends, from.size() - ends);
  finish_stream();
}

}  // namespace detail

/// to[i] = from[i].
/// @param together the size of the whole copy if this is a part of one: it decides whether the
///        caches are bypassed
/// @pre `to` has room for all of `from`; they do not overlap
/// @post visible to threads that synchronize with this one, as ordinary stores
/// @cost reads and writes every byte once, no allocation
inline void copy_bytes(std::span<std::byte> to, std::span<std::byte const> from,
                       std::size_t together = 0) {
  if (from.empty()) return;
  if (std::max(from.size(), together) < detail::past_caches)
    std::memcpy(to.data(), from.data(), from.size());
  else
    detail::copy_past_caches(to, from);
}

}  // namespace fssdp
