// SPDX-License-Identifier: Apache-2.0
/// Who sends how many tokens of which expert to whom.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"

namespace support {

/// Tokens by (expert, source, receiver).
using routed_tokens =
    std::map<std::tuple<fssdp::expert_id, fssdp::rank_id, fssdp::rank_id>, std::uint64_t>;

template <fssdp::token_routing Routing>
[[nodiscard]] routed_tokens routed(fssdp::token_counts const& counts, Routing const& routing) {
  auto result = routed_tokens{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(counts.experts()))
    for (auto const source : fssdp::first_n<fssdp::rank_id>(counts.ranks()))
      routing(source, expert, counts(source, expert), [&](fssdp::rank_id to, std::uint64_t tokens) {
        result[{expert, source, to}] += tokens;
      });
  return result;
}

}  // namespace support
