// SPDX-License-Identifier: Apache-2.0
/// Loops that form one block of a sum, each over all of its operands.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "fssdp/element/dtype.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/stream_lines.hpp"

namespace fssdp::detail {

/// The elements of a block: few enough for the sums to stay in the first-level cache.
inline constexpr std::size_t sum_block = 256;

/// Sums of first[i] and more[K][i]..., from left to right, for each i of one block. The numbers of
/// operands and elements are known at compile time, and memory does not overlap, so compilers
/// vectorize these loops at -O2 as well.
template <class Sum, std::size_t... K>
struct sum_loops {
  template <class Source>
  using pointers = std::array<Source const*, sizeof...(K)>;

  /// sums[i] = first[i] + more[K][i]...
  template <class Source>
  static void begin(Source const* first, Source const* const* more, Sum* __restrict sums) {
    [[maybe_unused]] auto const at = pointers<Source>{more[K]...};
    for (std::size_t i = 0; i < sum_block; ++i)
      sums[i] = (static_cast<Sum>(first[i]) + ... + static_cast<Sum>(at[K][i]));
  }

  /// sums[i] = sums[i] + more[K][i]...
  template <class Source>
  static void go_on(Source const* const* more, Sum* __restrict sums) {
    auto const at = pointers<Source>{more[K]...};
    for (std::size_t i = 0; i < sum_block; ++i)
      sums[i] = (sums[i] + ... + static_cast<Sum>(at[K][i]));
  }

  /// out[i] = scale * (first[i] + more[K][i]...)
  template <class First, class Source, class Out>
  static void write(First const* first, Source const* const* more, Sum scale, Out* __restrict out) {
    [[maybe_unused]] auto const at = pointers<Source>{more[K]...};
    for (std::size_t i = 0; i < sum_block; ++i)
      out[i] =
          static_cast<Out>(scale * (static_cast<Sum>(first[i]) + ... + static_cast<Sum>(at[K][i])));
  }

  /// The same, bypassing the caches.
  /// @pre `out` is aligned to a cache line; finish_stream() follows
  template <class First, class Source, class Out>
  static void stream(First const* first, Source const* const* more, Sum scale, Out* out) {
    constexpr auto piece = 4 * cache_line / sizeof(Out);  // elements; they fit into registers
    static_assert(sum_block % piece == 0);
    [[maybe_unused]] auto const at = pointers<Source>{more[K]...};
    for (std::size_t begin = 0; begin < sum_block; begin += piece) {
      auto results = std::array<Out, piece>{};
      for (std::size_t j = 0; j < piece; ++j)
        results[j] = static_cast<Out>(scale * (static_cast<Sum>(first[begin + j]) + ... +
                                               static_cast<Sum>(at[K][begin + j])));
      stream_lines(reinterpret_cast<std::byte*>(out + begin),
                   reinterpret_cast<std::byte const*>(results.data()), sizeof(results));
    }
  }

  /// out[i] = out[i] + scale * (first[i] + more[K][i]...)
  template <class First, class Source, class Out>
  static void accumulate(First const* first, Source const* const* more, Sum scale,
                         Out* __restrict out) {
    using wide = std::common_type_t<Sum, accumulator_t<Out>>;  // the output may be wider
    [[maybe_unused]] auto const at = pointers<Source>{more[K]...};
    for (std::size_t i = 0; i < sum_block; ++i)
      out[i] = static_cast<Out>(static_cast<wide>(out[i]) +
                                static_cast<wide>(scale * (static_cast<Sum>(first[i]) + ... +
                                                           static_cast<Sum>(at[K][i]))));
  }
};

}  // namespace fssdp::detail
