// SPDX-License-Identifier: Apache-2.0
/// A branch-free choice between two words.
#pragma once

#include <cstdint>

namespace fssdp::detail {

/// condition ? a : b, by a mask, as compilers do not vectorize loops with a branch.
[[nodiscard]] constexpr std::uint32_t choose(bool condition, std::uint32_t a, std::uint32_t b) {
  return b ^ ((a ^ b) & (0U - static_cast<std::uint32_t>(condition)));
}

}  // namespace fssdp::detail
