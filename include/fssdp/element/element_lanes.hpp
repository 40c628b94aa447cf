// SPDX-License-Identifier: Apache-2.0
/// How a kernel reads and writes elements: some at once, 16 bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// The bytes that a thread of a device moves at once, at best.
inline constexpr std::size_t wide_bytes = 16;

/// How many elements a step of a kernel takes that reads A and writes B: as many as make whole
/// accesses of either.
template <class A, class B>
inline constexpr std::size_t lanes_of = wide_bytes /
                                        (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));

/// Whether an address allows wide accesses.
[[nodiscard]] inline bool is_wide(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % wide_bytes == 0;
}

/// What is moved at once: 16 bytes of elements of any type. They are words because a compiler for
/// devices would take bytes apart, and that takes longer than to read them.
struct [[gnu::may_alias]] alignas(wide_bytes) wide_block {
  std::uint32_t words[wide_bytes / sizeof(std::uint32_t)];
};

/// The elements of one step.
template <class T, std::size_t N>
struct element_lanes {
  static constexpr auto per_block = wide_bytes / sizeof(T);
  static_assert(N % per_block == 0);
  T at[N];

  /// They as they are read: packed, so that many fit into registers.
  struct packed {
    wide_block blocks[N / per_block];
  };
  /// @pre `from` allows wide accesses
  FSSDP_HOST_DEVICE static packed read(T const* from) {
    auto result = packed{};
    for (std::size_t i = 0; i < N / per_block; ++i)
      result.blocks[i] = reinterpret_cast<wide_block const*>(from)[i];
    return result;
  }
  FSSDP_HOST_DEVICE static element_lanes of(packed const& from) {
    auto result = element_lanes{};
    std::memcpy(static_cast<void*>(result.at), from.blocks, sizeof(at));
    return result;
  }
  /// Reads all of them.
  /// @pre as read
  FSSDP_HOST_DEVICE void load(T const* from) { *this = of(read(from)); }
  /// Writes all of them.
  /// @pre `to` allows wide accesses
  FSSDP_HOST_DEVICE void store(T* to) const {
    for (std::size_t i = 0; i < N; i += per_block) {
      auto block = wide_block{};
      std::memcpy(&block, at + i, wide_bytes);
      *reinterpret_cast<wide_block*>(to + i) = block;
    }
  }
};

}  // namespace fssdp::detail
