// SPDX-License-Identifier: Apache-2.0
/// How kernels read and write elements: several at a time, in accesses of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// The largest access of a device thread, in bytes.
inline constexpr std::size_t wide_bytes = 16;

/// How many elements of A and B a step of a kernel processes: as many as form whole accesses of
/// both.
template <class A, class B>
inline constexpr std::size_t lanes_of = wide_bytes /
                                        (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));

/// Whether an address is aligned for wide accesses, or for those of this many bytes.
[[nodiscard]] inline bool is_wide(void const* address, std::size_t access = wide_bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % access == 0;
}

/// The unit of an access: 4, 8 or 16 bytes, as words, because device compilers would split bytes
/// into single accesses.
template <std::size_t Bytes>
struct [[gnu::may_alias]] alignas(Bytes) word_block {
  std::uint32_t words[Bytes / sizeof(std::uint32_t)];
};
using wide_block = word_block<wide_bytes>;
/// The unit where addresses do not allow more.
using narrow_block = word_block<sizeof(std::uint32_t)>;

/// Elements packed as in memory, so that many fit into registers.
/// @tparam Access the bytes of one access
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
/// @tparam Access the bytes of one access
template <class T, std::size_t N,
          std::size_t Access = N * sizeof(T) < wide_bytes ? N * sizeof(T) : wide_bytes>
struct element_lanes {
  using value_type = T;
  using block = word_block<Access>;
  using packed = packed_words<N * sizeof(T), Access>;
  static constexpr auto count = N;
  T at[N];

  /// @pre `from` is aligned to the access
  FSSDP_HOST_DEVICE static packed read(T const* from) {
    auto result = packed{};
    for (std::size_t i = 0; i < sizeof(packed) / Access; ++i)
      result.blocks[i] = reinterpret_cast<block const*>(from)[i];
    return result;
  }
  /// @pre `to` is aligned to the access
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
  /// @pre `to` is aligned to the access
  FSSDP_HOST_DEVICE void store(T* to) const { write(pack(), to); }
};

}  // namespace fssdp::detail
