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
/// Every rank that sends an expert holds it by then: it owns it, or it got it in an earlier round.
/// Every holder but the owner is filled exactly once; nobody else gets anything; no owner is
/// overwritten. A rank sends an expert in one round only, the one right behind its arrival, so that
/// the reduction finds all partial sums in one exchange.
/// @cost O(transfers + experts * ranks); a pure function
/// @throws plan_error that names the first transfer or holder at fault
inline void verify(transfer_plan const& plan) {
  auto const ranks = static_cast<std::size_t>(plan.ranks());
  constexpr auto absent = -1;
  // the first round in which (expert, rank) can send
  auto ready = std::vector<int>(static_cast<std::size_t>(plan.experts()) * ranks, absent);
  auto const at = [&](expert_id expert, rank_id rank) -> int& {
    return ready[expert.index() * ranks + rank.index()];
  };
  for (auto const expert : first_n<expert_id>(plan.experts())) at(expert, plan.owner(expert)) = 0;

  for (auto const& t : plan.transfers()) {  // in canonical order: by round
    auto const refuse = [&](auto const&... why) {
      throw plan_error{detail::text("plan: expert ", t.expert, " from rank ", t.source, " to rank ",
                                    t.destination, " in round ", t.round, ": ", why...)};
    };
    auto const& source = at(t.expert, t.source);
    auto& destination = at(t.expert, t.destination);
    if (!plan.where().holds(t.destination, t.expert)) refuse("the receiver does not hold it");
    if (source == absent) refuse("the sender never gets it before");
    if (source > t.round) refuse("the sender gets it only in round ", source - 1);
    if (source < t.round) refuse("the sender could send it in round ", source);
    if (t.destination == plan.owner(t.expert)) refuse("the receiver owns it");
    if (destination != absent) refuse("the receiver has it already");
    destination = t.round + 1;
  }
  for (auto const expert : first_n<expert_id>(plan.experts()))
    for (auto const rank : plan.where().holders(expert))
      if (at(expert, rank) == absent)
        throw plan_error{
            detail::text("plan: rank ", rank, " holds expert ", expert, " but never gets it")};
}

}  // namespace fssdp
