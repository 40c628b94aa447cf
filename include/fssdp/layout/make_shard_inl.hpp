// SPDX-License-Identifier: Apache-2.0
/// The sizes of the tensors of a slice.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/make_shard.hpp"

namespace fssdp {

FSSDP_INLINE std::vector<std::size_t> slice_sizes(std::span<std::size_t const> elements,
                                                  int slices) {
  auto sizes = std::vector<std::size_t>{};
  for (auto const size : elements) sizes.push_back(slice_elements(size, slices));
  return sizes;
}

}  // namespace fssdp
