// SPDX-License-Identifier: Apache-2.0
/// A choice between two words that is not a branch.
#pragma once

#include <cstdint>

namespace fssdp::detail {

/// condition ? a : b, by a mask: compilers do not vectorize a loop in which they see a branch.
[[nodiscard]] constexpr std::uint32_t choose(bool condition, std::uint32_t a, std::uint32_t b) {
  return b ^ ((a ^ b) & (0U - static_cast<std::uint32_t>(condition)));
}

}  // namespace fssdp::detail
