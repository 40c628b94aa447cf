// SPDX-License-Identifier: Apache-2.0
/// Random numbers that depend on a key and an index alone.
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

}  // namespace detail

/// Uniform numbers in [0, 1), multiples of 2^-24: the n-th depends on the key and n, on nothing
/// that has been drawn before. So draws are the same in any order, on any number of threads, by any
/// owner, and after a run is resumed.
class counter_random {
 public:
  explicit constexpr counter_random(std::uint64_t key) : key_{key} {}

  [[nodiscard]] constexpr float operator[](std::size_t n) const {
    auto const block = static_cast<std::uint64_t>(n / 4);
    auto const words = detail::philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 0, 0}, key_);
    return static_cast<float>(words[n % 4] >> 8U) * 0x1p-24F;
  }

 private:
  std::uint64_t key_;
};

/// A key made of numbers: a seed, a step, a layer, an expert, ...
template <class... Numbers>
[[nodiscard]] std::uint64_t random_key(Numbers... numbers) {
  auto hash = detail::hasher{};
  (hash.mix(numbers), ...);
  return hash.value();
}

}  // namespace fssdp
