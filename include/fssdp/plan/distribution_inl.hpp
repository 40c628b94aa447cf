// SPDX-License-Identifier: Apache-2.0
/// Checks lists of slots, and inverts them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/plan/distribution.hpp"

namespace fssdp {

namespace detail {

[[nodiscard]] inline std::vector<std::vector<chunk_id>> slots_of(placement const& where) {
  auto slots = std::vector<std::vector<chunk_id>>(static_cast<std::size_t>(where.ranks()));
  for (auto const expert : first_n<expert_id>(where.experts()))
    for (auto const rank : where.holders(expert)) slots[rank.index()].push_back(expert);
  return slots;
}

}  // namespace detail

FSSDP_INLINE distribution::distribution(placement const& where)
    : distribution{where.experts(), 1, detail::slots_of(where)} {}

FSSDP_INLINE distribution::distribution(int experts, int slices,
                                        std::vector<std::vector<chunk_id>> slots)
    : experts_{experts}, slices_{slices}, slots_{std::move(slots)} {
  detail::check_shape("distribution", experts, ranks(), slices);
  places_.resize(static_cast<std::size_t>(experts) * static_cast<std::size_t>(slices));
  for (auto const rank : first_n<rank_id>(ranks()))
    for (std::size_t slot = 0; slot < slots_[rank.index()].size(); ++slot) {
      auto const chunk = slots_[rank.index()][slot];
      auto const [expert, slice] = chunk;
      detail::require(expert.value() >= 0 && expert.value() < experts, "distribution: slot ", slot,
                      " of rank ", rank, " has expert ", expert, "; expected 0 to ", experts - 1);
      detail::require(slice.value() >= 0 && slice.value() < slices, "distribution: slot ", slot,
                      " of rank ", rank, " has slice ", slice, "; expected 0 to ", slices - 1);
      auto& places = places_[position(chunk)];
      detail::require(places.empty() || places.back().rank != rank, "distribution: rank ", rank,
                      " has slice ", slice, " of expert ", expert, " twice; expected it once");
      places.push_back({rank, slot});
    }
}

FSSDP_INLINE distribution distribution::on(std::span<rank_id const> members, int ranks) const {
  detail::require(members.size() == slots_.size(), "distribution: ", members.size(),
                  " members; expected ", slots_.size(), ", one for each rank");
  detail::require(ranks >= 1, "distribution: on a group of ", ranks, " ranks; expected 1 or more");
  auto slots = std::vector<std::vector<chunk_id>>(static_cast<std::size_t>(ranks));
  auto seen = std::vector<char>(slots.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto const member = members[i];
    detail::require(member.value() >= 0 && member.value() < ranks, "distribution: member ", member,
                    "; expected ranks from 0 to ", ranks - 1);
    detail::require(seen[member.index()] == 0, "distribution: member ", member,
                    " twice; expected every rank once");
    seen[member.index()] = 1;
    slots[member.index()] = slots_[i];
  }
  return {experts_, slices_, std::move(slots)};
}

}  // namespace fssdp
