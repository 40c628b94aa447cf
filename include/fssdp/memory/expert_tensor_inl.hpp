// SPDX-License-Identifier: Apache-2.0
/// Whether blocks of memory overlap.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "fssdp/core/inline.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp::detail {

FSSDP_INLINE bool overlap(std::span<std::byte const> x, std::span<std::byte const> y) {
  auto const before = std::less_equal<std::byte const*>{};
  return !x.empty() && !y.empty() && !before(x.data() + x.size(), y.data()) &&
         !before(y.data() + y.size(), x.data());
}

}  // namespace fssdp::detail
