// SPDX-License-Identifier: Apache-2.0
/// Argument checks of all_gather.
#pragma once

#include <cstddef>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp::detail {

FSSDP_INLINE void all_gather_call::check(int ranks, std::size_t element_bytes) const {
  require(to.size() == static_cast<std::size_t>(ranks) * from.size(), "all_gather: room for ",
          to.size() / element_bytes, " elements; expected ", ranks, " ranks times ",
          from.size() / element_bytes);
  require(!overlap(from, to), "all_gather: mine and all share memory; expected disjoint memory");
}

}  // namespace fssdp::detail
