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

/// Whether an address allows wide accesses, or others of so many bytes.
[[nodiscard]] inline bool is_wide(void const* address, std::size_t access = wide_bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % access == 0;
}

/// What is moved at once of elements of any type: 4, 8 or 16 bytes. They are words because a
/// compiler for devices would take bytes apart, and that takes longer than to read them.
template <std::size_t Bytes>
struct [[gnu::may_alias]] alignas(Bytes) word_block {
  std::uint32_t words[Bytes / sizeof(std::uint32_t)];
};
using wide_block = word_block<wide_bytes>;
/// What is moved at once where addresses do not allow more.
using narrow_block = word_block<sizeof(std::uint32_t)>;

/// Elements as they are moved: so many bytes, packed, that many fit into registers.
/// @tparam Access how many bytes are moved at once
template <std::size_t Bytes, std::size_t Access>
struct packed_words {
  static_assert(Bytes % Access == 0);
  static constexpr auto count = Bytes / sizeof(std::uint32_t);
  word_block<Access> blocks[Bytes / Access];

  [[nodiscard]] FSSDP_HOST_DEVICE std::uint32_t& operator[](std::size_t i) {
    return blocks[i / of_block].words[i % of_block];
  }
  [[nodiscard]] FSSDP_HOST_DEVICE std::uint32_t operator[](std::size_t i) const {
    return blocks[i / of_block].words[i % of_block];
  }

 private:
  static constexpr auto of_block = Access / sizeof(std::uint32_t);
};

/// The elements of one step.
/// @tparam Access how many bytes of them are moved at once
template <class T, std::size_t N,
          std::size_t Access = N * sizeof(T) < wide_bytes ? N * sizeof(T) : wide_bytes>
struct element_lanes {
  using value_type = T;
  using block = word_block<Access>;
  using packed = packed_words<N * sizeof(T), Access>;
  static constexpr auto count = N;
  T at[N];

  /// @pre `from` is a multiple of the access
  FSSDP_HOST_DEVICE static packed read(T const* from) {
    auto result = packed{};
    for (std::size_t i = 0; i < sizeof(packed) / Access; ++i)
      result.blocks[i] = reinterpret_cast<block const*>(from)[i];
    return result;
  }
  /// @pre `to` is a multiple of the access
  FSSDP_HOST_DEVICE static void write(packed const& words, T* to) {
    for (std::size_t i = 0; i < sizeof(packed) / Access; ++i)
      reinterpret_cast<block*>(to)[i] = words.blocks[i];
  }
  FSSDP_HOST_DEVICE static element_lanes of(packed const& from) {
    auto result = element_lanes{};
    std::memcpy(static_cast<void*>(result.at), from.blocks, sizeof(at));
    return result;
  }
  [[nodiscard]] FSSDP_HOST_DEVICE packed pack() const {
    auto result = packed{};
    std::memcpy(result.blocks, at, sizeof(at));
    return result;
  }
  /// Reads all of them.
  /// @pre as read
  FSSDP_HOST_DEVICE void load(T const* from) { *this = of(read(from)); }
  /// Writes all of them.
  /// @pre `to` is a multiple of the access
  FSSDP_HOST_DEVICE void store(T* to) const { write(pack(), to); }
};

}  // namespace fssdp::detail
