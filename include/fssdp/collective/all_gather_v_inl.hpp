// SPDX-License-Identifier: Apache-2.0
/// Argument checks of all_gather_v and its transpose.
#pragma once

#include <cstddef>

#include "fssdp/collective/all_gather_v.hpp"
#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

FSSDP_INLINE void check_arrays(char const* collective, uneven_plan const& plan, int ranks,
                               rank_id rank, named_array const& mine, named_array const& all) {
  check_ranks(collective, ranks, plan.plan());
  auto const check = [&](named_array const& array, std::size_t expected) {
    require(array.elements == expected, collective, ": ", array.name, " has ", array.elements,
            " elements on rank ", rank, "; expected ", expected, ", as the plan says");
    require(expected == 0 || array.bytes.data() != nullptr, collective, ": ", array.name,
            " is null on rank ", rank, "; expected memory for ", expected, " elements");
  };
  check(mine, plan.elements(rank));
  check(all, plan.elements());
  require(!overlap(mine.bytes, all.bytes), collective, ": ", mine.name, " and ", all.name,
          " share memory on rank ", rank, "; expected disjoint arrays");
}

}  // namespace fssdp::detail
