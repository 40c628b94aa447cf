// SPDX-License-Identifier: Apache-2.0
/// Checks layouts.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/shard_layout.hpp"

namespace fssdp::detail {

FSSDP_INLINE layout_check::layout_check(int experts, int slices, int ranks)
    : experts_{experts}, slices_{slices}, ranks_{ranks} {
  require(experts >= 1 && slices >= 1 && ranks >= 1, "layout: ", experts, " experts in ", slices,
          " slices on ", ranks, " ranks; expected 1 or more of each");
  require(experts <= std::numeric_limits<int>::max() / slices, "layout: ", experts, " experts in ",
          slices, " slices; expected at most ", std::numeric_limits<int>::max(), " chunks");
  listed_.resize(static_cast<std::size_t>(experts) * static_cast<std::size_t>(slices));
}

FSSDP_INLINE void layout_check::begin(rank_id rank) {
  rank_ = rank;
  position_ = 0;
}

FSSDP_INLINE void layout_check::is_one(chunk_id chunk) const {
  auto const& [expert, slice] = chunk;
  require(expert.value() >= 0 && expert.value() < experts_ && slice.value() >= 0 &&
              slice.value() < slices_,
          "layout: rank ", rank_, " owns slice ", slice, " of expert ", expert,
          "; expected slices below ", slices_, " of experts below ", experts_);
}

FSSDP_INLINE void layout_check::lies_at(chunk_id chunk, rank_id owner, int slot) {
  auto const& [expert, slice] = chunk;
  require(owner == rank_ && slot == position_, "layout: slice ", slice, " of expert ", expert,
          " is listed at slot ", position_, " of rank ", rank_, ", and the layout returns slot ",
          slot, " of rank ", owner, "; expected the same");
  listed_[expert.index() * static_cast<std::size_t>(slices_) + slice.index()] = 1;
  ++position_;
}

FSSDP_INLINE void layout_check::end(std::size_t size) const {
  require(size == static_cast<std::size_t>(position_), "layout: the size of the list of rank ",
          rank_, " is ", size, ", and it has ", position_, " chunks; expected the same");
}

FSSDP_INLINE void layout_check::end_all() const {
  auto next = listed_.begin();
  for (auto const chunk : chunk_range{0, static_cast<int>(listed_.size()), slices_})
    require(*next++ != 0, "layout: slice ", chunk.slice, " of expert ", chunk.expert,
            " is listed by no rank; expected every chunk to have one owner");
}

FSSDP_INLINE void check_shape(char const* layout, int experts, int ranks, int slices) {
  require(experts >= 1, layout, ": ", experts, " experts; expected 1 or more");
  require(ranks >= 1, layout, ": ", ranks, " ranks; expected 1 or more");
  require(slices >= 1, layout, ": ", slices, " slices; expected 1 or more");
  require(experts <= std::numeric_limits<int>::max() / slices, layout, ": ", experts,
          " experts in ", slices, " slices; expected at most ", std::numeric_limits<int>::max(),
          " chunks");
}

}  // namespace fssdp::detail
