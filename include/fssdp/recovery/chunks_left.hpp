// SPDX-License-Identifier: Apache-2.0
/// The chunks that the remaining ranks have when ranks are lost: of owners, and of mirrors.
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

/// State that no rank has any more, because a rank and its partner are lost. The last checkpoint
/// must be loaded.
class state_lost : public error {
 public:
  state_lost(rank_id rank, std::optional<rank_id> partner, std::vector<chunk_id> chunks,
             std::string const& what)
      : error{what}, rank_{rank}, partner_{partner}, chunks_{std::move(chunks)} {}
  [[nodiscard]] rank_id rank() const { return rank_; }
  /// The partner of the lost rank; none if nothing was mirrored.
  [[nodiscard]] std::optional<rank_id> partner() const { return partner_; }
  /// The chunks that the rank owned.
  [[nodiscard]] std::vector<chunk_id> const& chunks() const { return chunks_; }

 private:
  rank_id rank_;
  std::optional<rank_id> partner_;
  std::vector<chunk_id> chunks_;
};

namespace detail {

/// @param name a function that returns the name of a rank
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

/// The chunks of each remaining rank: its own, followed by those of the lost ranks whose mirrors it
/// keeps, rank by rank. A pure function.
/// @param ranks the remaining ranks, ascending, with their numbers in the layout
/// @param names [layout.ranks()]: the ranks as named in errors; empty: their numbers in the layout
/// @return ranks are numbered by their index in `ranks`; every chunk occurs once
/// @throws state_lost if a rank that owns chunks is lost together with its partner; argument_error
///         if ranks do not exist or do not ascend
[[nodiscard]] inline distribution chunks_left(table_layout const& layout,
                                              mirror_partners const& partners,
                                              std::span<rank_id const> ranks,
                                              std::span<rank_id const> names = {}) {
  detail::require(partners.ranks() == layout.ranks(), "chunks_left: partners of ", partners.ranks(),
                  " ranks; expected ", layout.ranks(), ", as in the layout");
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
