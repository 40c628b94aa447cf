// SPDX-License-Identifier: Apache-2.0
/// A routing that gives every rank about the same number of tokens, within the limits of placement
/// and ports.
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

/// Sends every rank its share (balanced_shares), exactly. Tokens of a rank that holds the expert
/// stay there up to its share; then tokens of its node fill the shares there; the rest goes to
/// other nodes, by ascending source and receiver. Tokens may leave a node that holds their expert.
///
/// It is made for the counts of all ranks and routes only these. It keeps a copy of the placement.
/// @cost that of balanced_shares, and O(ranks log ranks) for each expert; then O(receivers) for
///       each source and expert
class balanced_routing {
 public:
  /// @throws argument_error if counts, placement and topology differ in ranks or experts, or there
  ///         are 2^48 tokens or more
  balanced_routing(token_counts const& counts, placement held, topology const& given = {});

  [[nodiscard]] placement const& where() const { return where_; }
  /// @param tokens the count of the source for this expert
  /// @throws argument_error if it is a different number, before any token is routed
  template <class Emit>
  void operator()(rank_id source, expert_id expert, std::uint64_t tokens, Emit emit) const {
    for (auto const& share : shares_of(source, expert, tokens)) emit(share.rank, share.tokens);
  }

 private:
  /// The tokens of a source for an expert, by receiver.
  /// @throws argument_error unless they add up to `tokens`
  [[nodiscard]] std::span<replica_share const> shares_of(rank_id source, expert_id expert,
                                                         std::uint64_t tokens) const;

  placement where_;
  std::vector<std::size_t> first_;    // [experts * ranks + 1]: index into flows_
  std::vector<replica_share> flows_;  // by expert, source and receiver
};

static_assert(token_routing<balanced_routing>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/balanced_routing_inl.hpp"
#endif
