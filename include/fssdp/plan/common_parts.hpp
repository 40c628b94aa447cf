// SPDX-License-Identifier: Apache-2.0
/// The overlaps of the slices of two distributions.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/distribution.hpp"

namespace fssdp::detail {

/// The elements that a slice of the source and a slice of the target have in common.
struct common_part {
  std::size_t first;  ///< in the whole tensor
  std::size_t elements;
  std::size_t in_source;  ///< offset from the beginning of the slice
  std::size_t in_target;
};

/// Calls visit(source, target, part) for all overlaps of a tensor, by expert, then by source slice.
template <class Visit>
void for_each_common_part(distribution const& from, distribution const& to, std::size_t elements,
                          Visit visit) {
  for (auto const expert : first_n<expert_id>(from.experts()))
    for (auto const source : first_n<slice_id>(from.slices()))
      for (auto const target : first_n<slice_id>(to.slices())) {
        auto const has = slice_extent{elements, source, from.slices()};
        auto const wants = slice_extent{elements, target, to.slices()};
        auto const first = std::max(has.first, wants.first);
        auto const last = std::min(has.first + has.elements, wants.first + wants.elements);
        if (first < last)
          visit(chunk_id{expert, source}, chunk_id{expert, target},
                common_part{first, last - first, first - has.first, first - wants.first});
      }
}

}  // namespace fssdp::detail
