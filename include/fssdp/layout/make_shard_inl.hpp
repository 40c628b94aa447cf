// SPDX-License-Identifier: Apache-2.0
/// The sizes of the tensors of a slice.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/make_shard.hpp"

namespace fssdp {

FSSDP_INLINE std::vector<std::size_t> slice_sizes(std::span<std::size_t const> elements,
                                                  int slices) {
  detail::require(slices >= 1, "make_shard: a layout of ", slices, " slices; expected 1 or more");
  auto sizes = std::vector<std::size_t>{};
  for (auto const size : elements) sizes.push_back(slice_elements(size, slices));
  return sizes;
}

FSSDP_INLINE void detail::check_rank(char const* function, rank_id rank, int ranks) {
  require(rank.value() >= 0 && rank.value() < ranks, function, ": rank ", rank, "; expected 0 to ",
          ranks - 1);
}

}  // namespace fssdp
