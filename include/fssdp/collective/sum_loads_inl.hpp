// SPDX-License-Identifier: Apache-2.0
/// How the loads of all ranks are added.
#pragma once

#include <cstddef>

#include "fssdp/collective/sum_loads.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp::detail {

FSSDP_INLINE expert_loads sum_rows(expert_loads const& all, std::size_t experts) {
  auto total = expert_loads(experts);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& sum = total[i % experts];
    sum = add_loads("sum_loads", i % experts, sum, all[i]);
  }
  return total;
}

}  // namespace fssdp::detail
