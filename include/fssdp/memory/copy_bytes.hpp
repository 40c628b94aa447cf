// SPDX-License-Identifier: Apache-2.0
/// Copies bytes, past the caches if they are many.
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

/// What is written at once and has as many bytes goes past the caches.
inline constexpr std::size_t past_caches = std::size_t{1} << 20U;

/// The bytes from an address to where the next cache line begins.
[[nodiscard]] inline std::size_t bytes_to_line(void const* address) {
  return padded(reinterpret_cast<std::uintptr_t>(address)) -
         reinterpret_cast<std::uintptr_t>(address);
}

/// Copies past the caches.
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
/// @param together how many bytes are copied at once, if these are some of them: what decides
///        whether they stay in the caches
/// @pre `to` has room for all of `from`; they do not overlap
/// @post whoever synchronizes with this thread sees it, as any other store
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
