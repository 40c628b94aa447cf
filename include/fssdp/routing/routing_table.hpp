// SPDX-License-Identifier: Apache-2.0
/// A routing as a table, for token dispatchers of other frameworks.
#pragma once

#include <cstdint>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"

namespace fssdp {

/// Tokens of a rank for an expert that are sent to one of its holders.
struct token_flow {
  rank_id source;
  expert_id expert;
  rank_id to;
  std::uint64_t tokens = 0;
  friend bool operator==(token_flow const&, token_flow const&) = default;
};

/// All flows, by (source, expert, receiver). None is empty, and the flows of a source for an expert
/// add up to its count. The tokens of a source for an expert are sent in order: the first ones to
/// the first receiver, and so on, as in token_plan.
/// @throws argument_error if counts and placement differ in ranks or experts
template <token_routing Routing>
[[nodiscard]] std::vector<token_flow> routing_table(token_counts const& counts,
                                                    Routing const& routing) {
  auto const& where = routing.where();
  detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                  "routing_table: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                  " experts; the placement has ", where.ranks(), " and ", where.experts());
  auto table = std::vector<token_flow>{};
  for (auto const source : first_n<rank_id>(counts.ranks()))
    for (auto const expert : first_n<expert_id>(counts.experts()))
      routing(source, expert, counts(source, expert), [&](rank_id to, std::uint64_t tokens) {
        table.push_back({source, expert, to, tokens});
      });
  return table;
}

}  // namespace fssdp
