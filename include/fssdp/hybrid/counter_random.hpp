// SPDX-License-Identifier: Apache-2.0
/// Random numbers that depend only on a key and an index.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fssdp/core/hasher.hpp"

namespace fssdp {

namespace detail {

/// Philox4x32 with 10 rounds. (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC11)
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                            std::uint64_t key) {
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    auto const a = std::uint64_t{0xD2511F53} * counter[0];
    auto const b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return counter;
}

/// The words for consecutive counters from `first` on, with this key: word w of the n-th is [w][n].
template <std::size_t counters>
[[nodiscard]] constexpr std::array<std::array<std::uint32_t, counters>, 4> philox_of_many(
    std::uint64_t first, std::uint64_t key) {
  auto c0 = std::array<std::uint32_t, counters>{};
  auto c1 = c0;
  auto c2 = c0;
  auto c3 = c0;
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32U);
  for (std::size_t n = 0; n < counters; ++n) {
    c0[n] = static_cast<std::uint32_t>(first + n);
    c1[n] = static_cast<std::uint32_t>((first + n) >> 32U);
  }
  for (int round = 0; round < 10; ++round) {
    for (std::size_t n = 0; n < counters; ++n) {
      auto const a = std::uint64_t{0xD2511F53} * c0[n];
      auto const b = std::uint64_t{0xCD9E8D57} * c2[n];
      c0[n] = static_cast<std::uint32_t>(b >> 32U) ^ c1[n] ^ low;
      c1[n] = static_cast<std::uint32_t>(b);
      c2[n] = static_cast<std::uint32_t>(a >> 32U) ^ c3[n] ^ high;
      c3[n] = static_cast<std::uint32_t>(a);
    }
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

}  // namespace detail

/// Uniform random numbers in [0, 1), multiples of 2^-24. The n-th number depends only on the key
/// and n. So the numbers do not depend on the order of calls, the number of threads, the owner, or
/// whether a run was resumed.
class counter_random {
 public:
  explicit constexpr counter_random(std::uint64_t key) : key_{key} {}

  [[nodiscard]] constexpr float operator[](std::size_t n) const {
    auto const block = static_cast<std::uint64_t>(n / 4);
    auto const words = detail::philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 0, 0}, key_);
    return as_float(words[n % 4]);
  }

  /// The most efficient number to compute in one call.
  static constexpr std::size_t at_once = 64;
  /// The numbers from index `first` on.
  /// @pre first is a multiple of 4
  [[nodiscard]] constexpr std::array<float, at_once> many(std::size_t first) const {
    auto const words =
        detail::philox_of_many<at_once / 4>(static_cast<std::uint64_t>(first / 4), key_);
    auto numbers = std::array<float, at_once>{};
    for (std::size_t n = 0; n < at_once / 4; ++n)
      for (std::size_t w = 0; w < 4; ++w) numbers[4 * n + w] = as_float(words[w][n]);
    return numbers;
  }

 private:
  [[nodiscard]] static constexpr float as_float(std::uint32_t word) {
    return static_cast<float>(static_cast<std::int32_t>(word >> 8U)) * 0x1p-24F;
  }

  std::uint64_t key_;
};

/// A key computed from numbers: a seed, a step, a layer, an expert, ...
template <class... Numbers>
[[nodiscard]] std::uint64_t random_key(Numbers... numbers) {
  auto hash = detail::hasher{};
  (hash.mix(numbers), ...);
  return hash.value();
}

}  // namespace fssdp
