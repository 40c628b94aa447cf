// SPDX-License-Identifier: Apache-2.0
/// Which replica of an expert gets which tokens: as evenly as placement and ports allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Every rank gets its share (balanced_shares), integer by integer. Tokens of a rank that holds the
/// expert stay as far as its share goes; then those of its node fill the shares there; what is left
/// goes to other nodes, sources ascending, receivers node by node. Tokens may leave a node that
/// holds their expert.
///
/// It looks at the counts of all ranks, and routes those and no others. It keeps the placement.
/// @cost that of balanced_shares, and O(ranks log ranks) for each expert; then O(receivers) for each
///       source and expert
class balanced_routing {
 public:
  /// @throws argument_error if counts, placement and topology differ in ranks or experts, or there
  ///         are 2^48 tokens or more
  balanced_routing(token_counts const& counts, placement held, topology const& given = {});

  [[nodiscard]] placement const& where() const { return where_; }
  /// @param tokens that the source has counted
  /// @throws argument_error on another number of tokens, before any is routed
  template <class Emit>
  void operator()(rank_id source, expert_id expert, std::uint64_t tokens, Emit emit) const {
    for (auto const& share : shares_of(source, expert, tokens)) emit(share.rank, share.tokens);
  }

 private:
  /// What a source sends of an expert.
  /// @throws argument_error unless that is so many tokens
  [[nodiscard]] std::span<replica_share const> shares_of(rank_id source, expert_id expert,
                                                         std::uint64_t tokens) const;

  placement where_;
  std::vector<std::size_t> first_;    // [experts * ranks + 1]: into flows_
  std::vector<replica_share> flows_;  // by expert, source and receiver
};

static_assert(token_routing<balanced_routing>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/balanced_routing_inl.hpp"
#endif
