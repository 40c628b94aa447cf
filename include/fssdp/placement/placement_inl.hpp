// SPDX-License-Identifier: Apache-2.0
/// Fills and checks a placement.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {

FSSDP_INLINE void placement::add(expert_id expert, rank_id rank) {
  detail::require(expert.value() >= 0 && expert.value() < experts_, "placement: expert ", expert,
                  "; expected 0 to ", experts_ - 1);
  detail::require(rank.value() >= 0 && rank.value() < ranks_, "placement: rank ", rank,
                  "; expected 0 to ", ranks_ - 1);
  bits_[expert.index() * words_ + rank.index() / 64] |= std::uint64_t{1} << rank.index() % 64;
}

FSSDP_INLINE int placement::held_count(rank_id rank) const {
  auto count = 0;
  for (auto const expert : first_n<expert_id>(experts_)) count += holds(rank, expert) ? 1 : 0;
  return count;
}

FSSDP_INLINE void placement::clear(int experts, int ranks) {
  detail::require(experts >= 1, "placement: ", experts, " experts; expected 1 or more");
  detail::require(ranks >= 1, "placement: ", ranks, " ranks; expected 1 or more");
  experts_ = experts;
  ranks_ = ranks;
  words_ = static_cast<std::size_t>((ranks + 63) / 64);
  bits_.assign(static_cast<std::size_t>(experts) * words_, 0);
}

namespace detail {

FSSDP_INLINE void check_sizes(placement const& where, int experts, int ranks) {
  require(where.experts() == experts, "placement has ", where.experts(),
          " experts; the layout has ", experts);
  require(where.ranks() == ranks, "placement has ", where.ranks(), " ranks; the layout has ",
          ranks);
}

FSSDP_INLINE void check_holds(placement const& where, expert_id expert, rank_id owner) {
  require(owner.value() >= 0 && owner.value() < where.ranks() && where.holds(owner, expert),
          "placement: expert ", expert, " is not held by rank ", owner,
          ", which owns it; expected every expert at its owner (of slice 0)");
}

}  // namespace detail
}  // namespace fssdp
