// SPDX-License-Identifier: Apache-2.0
/// Writes cache lines directly to memory, where the processor supports that: the old contents are
/// not read, and the caches are not changed.
#pragma once

#include <cstddef>

#include "fssdp/memory/aligned_memory.hpp"

// The sanitizers of g++ do not see such stores; under them there are only those that they see.
#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <emmintrin.h>

namespace fssdp::detail {

/// Copies whole cache lines. finish_stream() must follow before other threads may read them.
/// @pre `to` is the beginning of a line, `bytes` a multiple of a line; they do not overlap
inline void stream_lines(std::byte* to, std::byte const* from, std::size_t bytes) {
  static_assert(cache_line == 4 * sizeof(__m128i));
  for (std::size_t i = 0; i < bytes; i += cache_line) {
    auto const* in = reinterpret_cast<__m128i const*>(from + i);
    auto* out = reinterpret_cast<__m128i*>(to + i);
    auto const a = _mm_loadu_si128(in);
    auto const b = _mm_loadu_si128(in + 1);
    auto const c = _mm_loadu_si128(in + 2);
    auto const d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
}

/// Orders such stores before all later stores.
inline void finish_stream() { _mm_sfence(); }

}  // namespace fssdp::detail

#else

#include <cstring>

namespace fssdp::detail {

inline void stream_lines(std::byte* to, std::byte const* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
inline void finish_stream() {}

}  // namespace fssdp::detail

#endif
