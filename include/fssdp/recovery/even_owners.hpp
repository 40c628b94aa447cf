// SPDX-License-Identifier: Apache-2.0
/// New owners when ranks are lost: equally many chunks for each rank, with few moves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/plan/distribution.hpp"

namespace fssdp {

/// Chooses owners for the chunks of the remaining ranks: floor(chunks / ranks) for each, and one
/// more for those that have most. A rank keeps what it has up to that number, its own chunks before
/// mirrored ones; the rest goes to ranks that have fewer.
///
/// It does not use loads. Any sharding_solver can be used instead, which moves more chunks.
struct even_owners {
  /// @param left  as returned by chunks_left: every chunk once
  /// @param ranks the old numbers of the remaining ranks; unused
  /// @post no layout that is as even moves fewer chunks
  /// @cost O(chunks + ranks log ranks) time; a pure function
  /// @throws argument_error if a chunk is missing or occurs more than once
  [[nodiscard]] table_layout operator()(distribution const& left,
                                        std::span<rank_id const> ranks = {}) const {
    (void)ranks;
    auto const size = static_cast<std::size_t>(left.ranks());
    auto const chunks = static_cast<std::size_t>(left.experts() * left.slices());
    auto by_size = std::vector<rank_id>{};
    for (auto const rank : first_n<rank_id>(left.ranks())) by_size.push_back(rank);
    std::ranges::stable_sort(by_size, std::greater{},
                             [&](rank_id rank) { return left.slots(rank).size(); });
    auto room = std::vector<std::size_t>(size, chunks / size);
    for (std::size_t i = 0; i < chunks % size; ++i) ++room[by_size[i].index()];

    auto owners = std::vector<rank_id>(chunks);
    auto moving = std::vector<std::size_t>{};
    auto const position = [&](chunk_id chunk) {
      return chunk.expert.index() * static_cast<std::size_t>(left.slices()) + chunk.slice.index();
    };
    for (auto const chunk : chunk_range{0, left.experts() * left.slices(), left.slices()})
      detail::require(left.places(chunk).size() == 1, "even_owners: slice ", chunk.slice,
                      " of expert ", chunk.expert, " is on ", left.places(chunk).size(),
                      " ranks; expected 1");
    for (auto const rank : first_n<rank_id>(left.ranks()))
      for (auto const chunk : left.slots(rank)) {
        auto& free = room[rank.index()];
        if (free == 0) {
          moving.push_back(position(chunk));
        } else {
          owners[position(chunk)] = rank;
          --free;
        }
      }
    auto to = rank_id{0};
    for (auto const chunk : moving) {
      while (room[to.index()] == 0) ++to;
      owners[chunk] = to;
      --room[to.index()];
    }
    return {{.ranks = left.ranks(), .slices = left.slices()}, std::move(owners)};
  }
};

}  // namespace fssdp
