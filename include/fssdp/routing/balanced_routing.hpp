// SPDX-License-Identifier: Apache-2.0
/// Which replica of an expert gets which tokens: as evenly as placement and ports allow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_demand.hpp"
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
  balanced_routing(token_counts const& counts, placement held, topology const& given = {})
      : where_{std::move(held)} {
    auto const& where = where_;
    detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                    "balanced_routing: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                    " experts; the placement has ", where.ranks(), " and ", where.experts());
    check_sum(counts);
    auto const topo = topology_or_one_node(given, where.ranks());
    auto const shares = balanced_shares{where, topo, token_demand{counts, topo}};
    auto expert_flows = flows_of_expert{counts, topo};
    first_.assign(1, 0);
    for (auto const expert : first_n<expert_id>(where.experts()))
      append(expert_flows.find(expert, shares));
  }

  [[nodiscard]] placement const& where() const { return where_; }
  /// @param tokens that the source has counted
  /// @throws argument_error on another number of tokens, before any is routed
  template <class Emit>
  void operator()(rank_id source, expert_id expert, std::uint64_t tokens, Emit emit) const {
    auto const row = expert.index() * static_cast<std::size_t>(where_.ranks()) + source.index();
    auto const shares = std::span{flows_}.subspan(first_[row], first_[row + 1] - first_[row]);
    auto counted = std::uint64_t{0};
    for (auto const& share : shares) counted += share.tokens;
    detail::require(tokens == counted, "balanced_routing: ", tokens, " tokens of rank ", source,
                    " for expert ", expert, "; it was made for ", counted);
    for (auto const& share : shares) emit(share.rank, share.tokens);
  }

 private:
  struct flow {
    rank_id from;
    rank_id to;
    std::uint64_t tokens;
  };

  /// Who sends what of one expert to whom, so that every replica gets its share.
  class flows_of_expert {
   public:
    flows_of_expert(token_counts const& counts, topology const& topo)
        : counts_{counts}, topo_{topo}, left_(static_cast<std::size_t>(counts.ranks())) {}

    /// By (source, receiver).
    std::span<flow const> find(expert_id expert, balanced_shares const& shares) {
      flows_.clear();
      room_.clear();
      for (auto const rank : first_n<rank_id>(counts_.ranks()))
        left_[rank.index()] = counts_(rank, expert);
      for (auto const& host : shares.hosts(expert)) {
        auto const first = room_.size();
        for (auto const& share : shares.replicas(host)) {
          room_.push_back(share);
          send(share.rank, room_.back());
        }
        fill(topo_.ranks_on(host.node), std::span{room_}.subspan(first));
      }
      if (std::ranges::any_of(room_, [](auto const& r) { return r.tokens != 0; })) fill_rest();
      std::ranges::sort(flows_, [](flow const& a, flow const& b) {
        return a.from != b.from ? a.from < b.from : a.to < b.to;
      });
      return flows_;
    }

   private:
    void send(rank_id from, replica_share& to) {
      auto const tokens = std::min(left_[from.index()], to.tokens);
      if (tokens == 0) return;
      left_[from.index()] -= tokens;
      to.tokens -= tokens;
      flows_.push_back({from, to.rank, tokens});
    }
    template <class Ranks>
    void fill(Ranks const& sources, std::span<replica_share> receivers) {
      auto to = receivers.begin();
      for (auto const from : sources)
        while (left_[from.index()] != 0) {
          while (to != receivers.end() && to->tokens == 0) ++to;
          if (to == receivers.end()) return;
          send(from, *to);
        }
    }
    void fill_rest() { fill(first_n<rank_id>(counts_.ranks()), room_); }

    token_counts const& counts_;
    topology const& topo_;
    std::vector<std::uint64_t> left_;  // [ranks]: not sent yet
    std::vector<replica_share> room_;  // of all replicas: what is missing from their shares
    std::vector<flow> flows_;
  };

  static void check_sum(token_counts const& counts) {
    auto sum = std::uint64_t{0};
    for (auto const tokens : counts.values()) {
      detail::require(tokens < most_tokens - sum, "balanced_routing: ", tokens, " tokens, ", sum,
                      " before them; expected less than 2^48 in all");
      sum += tokens;
    }
  }
  void append(std::span<flow const> flows) {
    auto next = flows.begin();
    for (auto const source : first_n<rank_id>(where_.ranks())) {
      for (; next != flows.end() && next->from == source; ++next)
        flows_.push_back({next->to, next->tokens});
      first_.push_back(flows_.size());
    }
  }

  static constexpr auto most_tokens = std::uint64_t{1} << 48;

  placement where_;
  std::vector<std::size_t> first_;    // [experts * ranks + 1]: into flows_
  std::vector<replica_share> flows_;  // by expert, source and receiver
};

static_assert(token_routing<balanced_routing>);

}  // namespace fssdp
