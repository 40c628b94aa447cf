// SPDX-License-Identifier: Apache-2.0
/// One-time work of a communicator for a plan, done in advance.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// The ranks that one rank exchanges messages with in gathers and reductions by a plan, ascending.
/// @cost allocates the list
[[nodiscard]] inline std::vector<rank_id> peers_of(transfer_plan const& plan, rank_id rank) {
  auto peers = std::vector<rank_id>{};
  for (auto const* const part : {&plan, &plan.reduction()}) {
    for (auto const& t : part->sends(rank)) peers.push_back(t.destination);
    for (auto const& t : part->receives(rank)) peers.push_back(t.source);
  }
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());  // clang 14: not in ranges
  return peers;
}

namespace detail {

/// The hashes by which ranks check that they use the same plan for gathers and reductions.
[[nodiscard]] inline std::array<std::uint64_t, 2> hashes_of(transfer_plan const& plan) {
  return {plan.hash_value(), plan.reduction().hash_value()};
}

}  // namespace detail

/// Connects the ranks that communicate in a plan, and checks that all ranks have the same plan.
/// Gathers and reductions by it then need neither, and can be captured into a graph. Does nothing
/// on communicators that need no preparation.
/// @pre every rank calls with an equal plan
/// @cost once per plan and communicator; it waits for all ranks
/// @throws argument_error if the plan is for other ranks; ranks_disagree if plans differ; transport
///         errors
template <communicator Comm>
void warm_up(Comm& comm, transfer_plan const& plan) {
  detail::check_ranks("warm_up", comm.size(), plan);
  submit(comm, [&plan]<class Inner>(Inner& inner) {
    auto const hashes = detail::hashes_of(plan);
    announce(inner, hashes);
    for (auto const hash : hashes) agree(inner, hash);
    if constexpr (connecting_communicator<Inner>) inner.connect(peers_of(plan, inner.rank()));
  });
  synchronize(comm);
}

}  // namespace fssdp
