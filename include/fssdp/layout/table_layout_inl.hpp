// SPDX-License-Identifier: Apache-2.0
/// Checks a table of owners, and lists the chunks of each rank.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/table_layout.hpp"

namespace fssdp {

FSSDP_INLINE table_layout::table_layout(shape const& of, std::vector<rank_id> owners)
    : shape_{of}, owner_{std::move(owners)}, slot_(owner_.size()) {
  detail::check_shape("table_layout", 1, of.ranks, of.slices);
  detail::require(owner_.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
                  "table_layout: owners of ", owner_.size(), " chunks; expected at most ",
                  std::numeric_limits<int>::max());
  auto const whole = owner_.size() % static_cast<std::size_t>(of.slices) == 0;
  detail::require(whole && !owner_.empty(), "table_layout: owners of ", owner_.size(),
                  " chunks; expected ", of.slices, " for every expert, and one expert or more");
  begin_.resize(static_cast<std::size_t>(of.ranks) + 1);
  for (auto const owner : owner_) {
    detail::require(owner.value() >= 0 && owner.value() < of.ranks, "table_layout: owner ", owner,
                    "; expected ranks from 0 to ", of.ranks - 1);
    ++begin_[owner.index() + 1];
  }
  for (std::size_t rank = 1; rank < begin_.size(); ++rank) begin_[rank] += begin_[rank - 1];
  owned_.resize(owner_.size());
  auto filled = std::vector<int>(static_cast<std::size_t>(of.ranks));
  for (auto const chunk : all_chunks(*this)) {
    auto const rank = owner(chunk).index();
    slot_[position(chunk)] = filled[rank]++;
    owned_[begin_[rank] + static_cast<std::size_t>(slot(chunk))] = chunk;
  }
}

}  // namespace fssdp
