// SPDX-License-Identifier: Apache-2.0
/// Which experts get additional replicas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fssdp/placement/load_share.hpp"

namespace fssdp::detail {

/// Assigns `extra` replicas one by one, each to the item with the largest load per replica (ties:
/// the lower index).
/// @param loads [items]; each item has one replica at first
/// @param most  the largest number of replicas of an item
/// @return [extra] indices into `loads`, in order of assignment; fewer if every item has `most`
/// @cost O((items + extra) log items) time
[[nodiscard]] inline std::vector<std::size_t> extra_replicas(
    std::span<std::uint64_t const> loads, std::size_t extra,
    int most = std::numeric_limits<int>::max()) {
  struct item {
    load_share share;
    std::size_t place;
  };
  auto heap = std::vector<item>{};
  for (std::size_t place = 0; place < loads.size(); ++place)
    heap.push_back({{.load = loads[place]}, place});
  auto const less_urgent = [](item const& a, item const& b) {
    return a.share < b.share || (a.share == b.share && a.place > b.place);
  };
  std::ranges::make_heap(heap, less_urgent);
  auto given = std::vector<std::size_t>{};
  if (most <= 1) return given;
  while (given.size() < extra && !heap.empty()) {
    std::ranges::pop_heap(heap, less_urgent);
    given.push_back(heap.back().place);
    if (++heap.back().share.replicas == most)
      heap.pop_back();
    else
      std::ranges::push_heap(heap, less_urgent);
  }
  return given;
}

}  // namespace fssdp::detail
