// SPDX-License-Identifier: Apache-2.0
/// The demand that solvers assume for each node when only the loads of experts are known.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "fssdp/routing/token_demand.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Spreads the loads over the nodes in proportion to their ranks, scaled to a sum of about 2^40.
/// Loads are divided by their greatest common divisor first, so the result does not depend on their
/// scale; if all are zero, they count as equal.
/// @cost O(N E); no allocation if `demand` has been as large before
inline void expect_demand(std::span<std::uint64_t const> loads, topology const& topo,
                          token_demand& demand) {
  __extension__ typedef unsigned __int128 wide;
  auto divisor = std::uint64_t{0};
  for (auto const load : loads) {
    divisor = std::gcd(divisor, load);
    if (divisor == 1) break;
  }
  auto const reduced = [&](std::size_t e) { return divisor == 0 ? 1 : loads[e] / divisor; };
  auto sum = wide{0};
  for (std::size_t e = 0; e < loads.size(); ++e) sum += reduced(e);
  constexpr auto bits = 40;
  auto const high = static_cast<std::uint64_t>(sum >> 64U);
  auto const width =
      high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(sum));
  auto const ranks = static_cast<std::uint64_t>(topo.ranks());
  demand.reset(topo.nodes(), static_cast<int>(loads.size()));
  auto const first = demand.of(node_id{0});
  for (std::size_t e = 0; e < loads.size(); ++e)
    first[e] = width > bits ? reduced(e) >> (width - bits) : reduced(e) << (bits - width);
  for (auto node = node_id{topo.nodes() - 1};; node = node_id{node.value() - 1}) {
    auto const here = topo.ranks_on(node).size();
    auto const row = demand.of(node);
    for (std::size_t e = 0; e < loads.size(); ++e) row[e] = first[e] * here / ranks;
    if (node == node_id{0}) return;  // computed last, as the others read it
  }
}

}  // namespace fssdp::detail
