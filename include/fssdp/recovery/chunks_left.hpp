// SPDX-License-Identifier: Apache-2.0
/// Who has which chunks when ranks are lost: owners, and those that keep mirrors of lost ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/plan/distribution.hpp"
#include "fssdp/recovery/mirror_partners.hpp"

namespace fssdp {

/// State that nobody has any more: a rank and its partner are lost at once. What is left is the
/// last checkpoint.
class state_lost : public error {
 public:
  state_lost(rank_id rank, std::optional<rank_id> partner, std::vector<chunk_id> chunks,
             std::string const& what)
      : error{what}, rank_{rank}, partner_{partner}, chunks_{std::move(chunks)} {}
  [[nodiscard]] rank_id rank() const { return rank_; }
  /// None if nothing was mirrored.
  [[nodiscard]] std::optional<rank_id> partner() const { return partner_; }
  /// What the rank owned.
  [[nodiscard]] std::vector<chunk_id> const& chunks() const { return chunks_; }

 private:
  rank_id rank_;
  std::optional<rank_id> partner_;
  std::vector<chunk_id> chunks_;
};

namespace detail {

/// @param name what ranks are called
template <class Name>
[[nodiscard]] state_lost nobody_has(table_layout const& layout, rank_id of_layout,
                                    std::optional<rank_id> partner_there, Name name) {
  auto const owned = layout.owned(of_layout);
  auto const rank = name(of_layout);
  auto const partner =
      partner_there.has_value() ? std::optional{name(*partner_there)} : std::nullopt;
  auto list = std::string{};
  constexpr auto most = std::size_t{8};
  for (std::size_t i = 0; i < std::min(owned.size(), most); ++i)
    list += layout.slices() == 1
                ? text(i == 0 ? "" : ", ", owned[i].expert)
                : text(i == 0 ? "" : ", ", owned[i].expert, " (slice ", owned[i].slice, ")");
  if (owned.size() > most) list += text(" and ", owned.size() - most, " more");
  auto const who = partner.has_value()
                       ? text("rank ", rank, " and its partner, rank ", *partner, ", are lost")
                       : text("rank ", rank, " is lost, which has no partner");
  return {rank, partner, std::vector<chunk_id>(owned.begin(), owned.end()),
          text(who, ", and with them the state of experts ", list,
               "; load the last checkpoint, with the ranks that are left")};
}

}  // namespace detail

/// What each of the ranks that are left has: its own chunks, and behind them those of the lost
/// ranks that it keeps the mirrors of, rank by rank. A pure function.
/// @param ranks those that are left, ascending, as the layout numbers them
/// @param names [layout.ranks()]: what ranks are called in errors; empty: as the layout numbers
///              them
/// @return numbered as in `ranks`; every chunk is there once
/// @throws state_lost if a rank that owns chunks is lost together with its partner; argument_error
///         if ranks are not there, or do not ascend
[[nodiscard]] inline distribution chunks_left(table_layout const& layout,
                                              mirror_partners const& partners,
                                              std::span<rank_id const> ranks,
                                              std::span<rank_id const> names = {}) {
  detail::require(partners.ranks() == layout.ranks(), "chunks_left: partners of ", partners.ranks(),
                  " ranks; expected ", layout.ranks());
  detail::require(!ranks.empty(), "chunks_left: no ranks; expected those that are left");
  for (std::size_t i = 0; i < ranks.size(); ++i)
    detail::require(ranks[i].value() >= 0 && ranks[i].value() < layout.ranks() &&
                        (i == 0 || ranks[i - 1] < ranks[i]),
                    "chunks_left: rank ", ranks[i], "; expected ascending ranks from 0 to ",
                    layout.ranks() - 1);
  auto const is_left = [&](rank_id rank) { return std::ranges::binary_search(ranks, rank); };
  auto const name = [&](rank_id rank) { return names.empty() ? rank : names[rank.index()]; };
  for (auto const rank : first_n<rank_id>(layout.ranks())) {
    if (is_left(rank) || layout.owned(rank).empty()) continue;
    auto const partner = partners.partner(rank);
    if (!partner.has_value() || !is_left(*partner))
      throw detail::nobody_has(layout, rank, partner, name);
  }
  auto lists = std::vector<std::vector<chunk_id>>{};
  for (auto const rank : ranks) {
    auto const own = layout.owned(rank);
    auto& list = lists.emplace_back(own.begin(), own.end());
    for (auto const other : partners.mirrored_on(rank)) {
      auto const mirrored = layout.owned(other);
      if (!is_left(other)) list.insert(list.end(), mirrored.begin(), mirrored.end());
    }
  }
  return distribution{layout.experts(), layout.slices(), std::move(lists)};
}

}  // namespace fssdp
