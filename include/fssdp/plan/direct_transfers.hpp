// SPDX-License-Identifier: Apache-2.0
/// Direct transfers: every chunk from its owner to each holder. The baseline for other plans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Calls function(chunk, owner, holder) for every chunk and every holder of its expert except its
/// owner, ascending.
/// @param of a layout, or a plan
template <class Owners, class Function>
void for_each_delivery(Owners const& of, placement const& where, Function function) {
  for (auto const chunk : chunk_range{0, of.experts() * of.slices(), of.slices()}) {
    auto const owner = of.owner(chunk);
    for (auto const rank : where.holders(chunk.expert))
      if (rank != owner) function(chunk, owner, rank);
  }
}

/// The owner of every chunk sends it to all other holders of its expert, in one round; all pieces
/// to one holder before the first to the next.
template <class Owners>
[[nodiscard]] std::vector<transfer> direct_transfers(Owners const& of, placement const& where,
                                                     int pieces = 1) {
  auto transfers = std::vector<transfer>{};
  for_each_delivery(of, where, [&](chunk_id chunk, rank_id owner, rank_id rank) {
    for (int piece = 0; piece < pieces; ++piece)
      transfers.push_back(
          {0, chunk, owner, rank, piece, pieces == 1 ? 0 : static_cast<int>(transfers.size())});
  });
  return transfers;
}

/// The time of direct transfers, by simulate.
[[nodiscard]] inline double direct_seconds(transfer_plan const& plan, std::size_t chunk_bytes,
                                           int pieces = 1) {
  auto const& topo = plan.topology();
  auto ports = port_model{topo, topo.cost(), static_cast<double>(chunk_bytes) / pieces};
  auto seconds = 0.0;
  for_each_delivery(plan, plan.where(), [&](chunk_id chunk, rank_id owner, rank_id rank) {
    auto const part = part_of_largest(plan, chunk.expert);
    seconds = std::max(seconds, ports.play(owner, rank, 0, pieces, part).arrival);
  });
  return seconds;
}

}  // namespace fssdp::detail
