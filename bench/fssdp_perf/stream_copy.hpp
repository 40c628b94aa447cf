// SPDX-License-Identifier: Apache-2.0
/// Copies past the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace perf {

#if defined(__SSE2__)

[[nodiscard]] constexpr bool has_stream_copy() { return true; }

/// A memcpy whose target does not come into the caches. Others see it after the next
/// end_of_stream().
inline void stream_copy(void* to, void const* from, std::size_t bytes) {
  constexpr auto line = std::size_t{64};
  auto* out = static_cast<std::byte*>(to);
  auto const* in = static_cast<std::byte const*>(from);
  auto const past = reinterpret_cast<std::uintptr_t>(out) % line;
  auto const head = std::min(bytes, past == 0 ? 0 : line - past);
  std::memcpy(out, in, head);
  auto i = head;
  for (; i + line <= bytes; i += line) {
    auto const* source = reinterpret_cast<__m128i const*>(in + i);
    auto* target = reinterpret_cast<__m128i*>(out + i);
    auto const a = _mm_loadu_si128(source);
    auto const b = _mm_loadu_si128(source + 1);
    auto const c = _mm_loadu_si128(source + 2);
    auto const d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(out + i, in + i, bytes - i);
}
inline void end_of_stream() { _mm_sfence(); }

#else

[[nodiscard]] constexpr bool has_stream_copy() { return false; }
inline void stream_copy(void* to, void const* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
inline void end_of_stream() {}

#endif

}  // namespace perf
