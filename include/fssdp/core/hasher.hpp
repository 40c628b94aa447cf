// SPDX-License-Identifier: Apache-2.0
/// Hashes by which ranks detect that they disagree.
#pragma once

#include <cstdint>

namespace fssdp::detail {

/// A 64-bit hash of many numbers, the same on every host: FNV-1a over words, with a final mix.
class hasher {
 public:
  template <class Number>
  void mix(Number value) {
    hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0x100000001b3;
  }
  /// Adds two numbers that fit into 32 bits.
  void mix(int high, int low) {
    mix((static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U) |
        static_cast<std::uint32_t>(low));
  }
  [[nodiscard]] std::uint64_t value() const {
    auto const h = (hash_ ^ (hash_ >> 33U)) * 0xff51afd7ed558ccd;
    return h ^ (h >> 33U);
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace fssdp::detail
