// SPDX-License-Identifier: Apache-2.0
/// Which replica of an expert gets which tokens: the paper's rule.
#pragma once

#include <cstdint>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {

/// What the `index`-th of `receivers` gets when rank `source` splits `tokens` evenly. The ones that
/// are left over begin at a receiver that depends on the source, so that they do not pile up.
/// @pre 0 <= index < receivers
[[nodiscard]] constexpr std::uint64_t even_share(std::uint64_t tokens, std::uint64_t receivers,
                                                 rank_id source, std::uint64_t index) {
  auto const turn = (index + receivers - source.index() % receivers) % receivers;
  return tokens / receivers + (turn < tokens % receivers ? 1 : 0);
}

/// Tokens stay on their rank if it holds the expert; else they go evenly to the holders on their
/// node; else evenly to all holders. Calls `emit(rank, tokens)` for every receiver that gets any,
/// ascending. (Paper: token dispatch)
/// @cost O(ranks / 64 + holders); no allocation
template <class Emit>
void route_evenly(placement const& where, topology const& machine, rank_id source, expert_id expert,
                  std::uint64_t tokens, Emit emit) {
  if (tokens == 0) return;
  if (where.holds(source, expert)) {
    emit(source, tokens);
    return;
  }
  auto nearby = std::uint64_t{0};
  for (auto const rank : where.holders(expert)) nearby += machine.same_node(rank, source) ? 1 : 0;
  auto const receivers = nearby > 0 ? nearby : where.holders(expert).size();
  auto index = std::uint64_t{0};
  for (auto const rank : where.holders(expert)) {
    if (nearby > 0 && !machine.same_node(rank, source)) continue;
    auto const share = even_share(tokens, receivers, source, index++);
    if (share > 0) emit(rank, share);
  }
}

}  // namespace fssdp
