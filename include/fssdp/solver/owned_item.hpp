// SPDX-License-Identifier: Apache-2.0
/// What needs an owner: an expert of any size, an embedding, a matrix that is optimized whole.
#pragma once

#include <cstdint>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// The number of an item, from 0.
using item_id = strong_index<struct item_tag>;

/// What an item weighs on the rank that owns it. Units are free: an amount counts by its share of
/// that of all items.
struct owned_item {
  std::uint64_t bytes = 0;      ///< of parameters and of all that stays and moves with them
  std::uint64_t step_cost = 0;  ///< of its optimizer step, in FLOP or nanoseconds
  std::uint64_t load = 0;       ///< tokens that it draws to its owner, if it is an expert
  friend bool operator==(owned_item const&, owned_item const&) = default;
};

}  // namespace fssdp
