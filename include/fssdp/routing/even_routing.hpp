// SPDX-License-Identifier: Apache-2.0
/// The routing of the paper: tokens go to the nearest holders, evenly.
#pragma once

#include <cstdint>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The share of the `index`-th of `receivers` when rank `source` divides `tokens` evenly. The
/// remainder starts at a receiver that depends on the source, so that remainders do not accumulate
/// at one.
/// @pre 0 <= index < receivers
[[nodiscard]] constexpr std::uint64_t even_share(std::uint64_t tokens, std::uint64_t receivers,
                                                 rank_id source, std::uint64_t index) {
  auto const turn = (index + receivers - source.index() % receivers) % receivers;
  return tokens / receivers + (turn < tokens % receivers ? 1 : 0);
}

/// Tokens stay on their rank if it holds the expert; otherwise they are divided evenly among the
/// holders on their node; if there are none, evenly among all holders. Calls `emit(rank, tokens)`
/// for every receiver of any tokens, ascending. (Paper: token dispatch)
/// @cost O(ranks / 64 + holders); no allocation
template <class Emit>
void route_evenly(placement const& where, topology const& topo, rank_id source, expert_id expert,
                  std::uint64_t tokens, Emit emit) {
  if (tokens == 0) return;
  if (where.holds(source, expert)) {
    emit(source, tokens);
    return;
  }
  auto nearby = std::uint64_t{0};
  for (auto const rank : where.holders(expert)) nearby += topo.same_node(rank, source) ? 1 : 0;
  auto const receivers = nearby > 0 ? nearby : where.holders(expert).size();
  auto index = std::uint64_t{0};
  for (auto const rank : where.holders(expert)) {
    if (nearby > 0 && !topo.same_node(rank, source)) continue;
    auto const share = even_share(tokens, receivers, source, index++);
    if (share > 0) emit(rank, share);
  }
}

/// This rule for one placement, which it copies, and one topology. It does not depend on the counts
/// of other ranks: every rank can route its own tokens before it knows them.
class even_routing {
 public:
  /// @throws argument_error if the topology has ranks, but not as many as the placement
  explicit even_routing(placement where, topology const& given = {});

  [[nodiscard]] placement const& where() const { return where_; }
  template <class Emit>
  void operator()(rank_id source, expert_id expert, std::uint64_t tokens, Emit emit) const {
    route_evenly(where_, topo_, source, expert, tokens, emit);
  }

 private:
  placement where_;
  topology topo_;
};

static_assert(token_routing<even_routing>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/even_routing_inl.hpp"
#endif
