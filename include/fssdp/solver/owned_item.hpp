// SPDX-License-Identifier: Apache-2.0
/// Anything that needs an owner: an expert of any size, an embedding, a matrix for the optimizer.
#pragma once

#include <cstdint>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// The number of an item, from 0.
using item_id = strong_index<struct item_tag>;

/// The amounts that an item adds to the rank that owns it. In any units: an amount counts by its
/// share of the sum over all items.
struct owned_item {
  std::uint64_t bytes = 0;      ///< of parameters, and of all that is stored and moved with them
  std::uint64_t step_cost = 0;  ///< of its optimizer step, for instance in FLOP or nanoseconds
  std::uint64_t load = 0;       ///< tokens that its owner computes, if it is an expert
  friend bool operator==(owned_item const&, owned_item const&) = default;
};

}  // namespace fssdp
