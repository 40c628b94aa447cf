// SPDX-License-Identifier: Apache-2.0
/// Refuses plans that would not deliver what their placement promises.
#pragma once

#include <cstddef>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Replays a plan.
///
/// Every rank that sends a chunk has it by then: it owns it, or it got it in an earlier round.
/// Every holder of an expert gets each of its chunks exactly once, but those it owns; nobody else
/// gets anything; no owner is overwritten. A rank sends a chunk in one round only, the one right
/// behind its arrival, so that the reduction finds all partial sums in one exchange.
/// @cost O(transfers + chunks * ranks); a pure function
/// @throws plan_error that names the first transfer or holder at fault
inline void verify(transfer_plan const& plan) {
  auto const ranks = static_cast<std::size_t>(plan.ranks());
  constexpr auto absent = -1;
  auto const slices = static_cast<std::size_t>(plan.slices());
  // the first round in which (chunk, rank) can send
  auto ready = std::vector<int>(static_cast<std::size_t>(plan.experts()) * slices * ranks, absent);
  auto const at = [&](chunk_id chunk, rank_id rank) -> int& {
    return ready[(chunk.expert.index() * slices + chunk.slice.index()) * ranks + rank.index()];
  };
  auto const chunks = chunk_range{0, plan.experts() * plan.slices(), plan.slices()};
  for (auto const chunk : chunks) at(chunk, plan.owner(chunk)) = 0;

  for (auto const& t : plan.transfers()) {  // in canonical order: by round
    auto const refuse = [&](auto const&... why) {
      throw plan_error{detail::text("plan: slice ", t.chunk.slice, " of expert ", t.chunk.expert,
                                    " from rank ", t.source, " to rank ", t.destination,
                                    " in round ", t.round, ": ", why...)};
    };
    auto const& source = at(t.chunk, t.source);
    auto& destination = at(t.chunk, t.destination);
    if (source == absent) refuse("the sender never gets it before");
    if (source > t.round) refuse("the sender gets it only in round ", source - 1);
    if (source < t.round) refuse("the sender could send it in round ", source);
    if (destination != absent) refuse("the receiver has it already");
    destination = t.round + 1;
  }
  for (auto const chunk : chunks)
    for (auto const rank : plan.where().holders(chunk.expert))
      if (at(chunk, rank) == absent)
        throw plan_error{detail::text("plan: rank ", rank, " holds expert ", chunk.expert,
                                      " but never gets slice ", chunk.slice, " of it")};
}

}  // namespace fssdp
