// SPDX-License-Identifier: Apache-2.0
/// Checks a plan by simulation.
#pragma once

#include <cstddef>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/plan/verify.hpp"

namespace fssdp {

FSSDP_INLINE void verify(transfer_plan const& plan) {
  constexpr auto never = -1;
  struct state {
    int arrived = never;  // the round in which a rank receives a piece; owners: before round 0
    int sent = never;     // the round in which it passes it on
    bool has = false;
  };
  auto const ranks = static_cast<std::size_t>(plan.ranks());
  auto const slices = static_cast<std::size_t>(plan.slices());
  auto const pieces = static_cast<std::size_t>(plan.pieces());
  auto states =
      std::vector<state>(static_cast<std::size_t>(plan.experts()) * slices * pieces * ranks);
  auto const at = [&](piece_id piece, rank_id rank) -> state& {
    auto const chunk = piece.chunk.expert.index() * slices + piece.chunk.slice.index();
    return states[(chunk * pieces + static_cast<std::size_t>(piece.index)) * ranks + rank.index()];
  };
  auto const chunks = chunk_range{0, plan.experts() * plan.slices(), plan.slices()};
  for (auto const chunk : chunks)
    for (int piece = 0; piece < plan.pieces(); ++piece)
      at({chunk, piece}, plan.owner(chunk)).has = true;

  for (auto const& t : plan.transfers()) {  // in canonical order
    auto const refuse = [&](auto const&... why) {
      throw plan_error{detail::text("plan: piece ", t.piece, " of slice ", t.chunk.slice,
                                    " of expert ", t.chunk.expert, " from rank ", t.source,
                                    " to rank ", t.destination, " in round ", t.round, ": ",
                                    why...)};
    };
    auto& source = at(t.what(), t.source);
    auto& destination = at(t.what(), t.destination);
    if (!source.has) refuse("the sender never gets it before");
    if (source.arrived >= t.round) refuse("the sender gets it only in round ", source.arrived);
    if (source.sent != never && source.sent != t.round)
      refuse("the sender sends it in round ", source.sent, ", too");
    if (destination.has) refuse("the receiver has it already");
    source.sent = t.round;
    destination = {t.round, never, true};
  }
  for (auto const& t : plan.transfers())
    if (!plan.where().holds(t.destination, t.chunk.expert) &&
        at(t.what(), t.destination).sent == never)
      throw plan_error{detail::text("plan: rank ", t.destination, " gets piece ", t.piece,
                                    " of slice ", t.chunk.slice, " of expert ", t.chunk.expert,
                                    "; expected a rank that holds the expert or passes it on")};
  for (auto const chunk : chunks)
    for (auto const rank : plan.where().holders(chunk.expert))
      for (int piece = 0; piece < plan.pieces(); ++piece)
        if (!at({chunk, piece}, rank).has)
          throw plan_error{detail::text("plan: rank ", rank, " holds expert ", chunk.expert,
                                        " but never gets piece ", piece, " of slice ", chunk.slice,
                                        " of it")};
  if (&plan.reduction() != &plan) verify(plan.reduction());
}

}  // namespace fssdp
