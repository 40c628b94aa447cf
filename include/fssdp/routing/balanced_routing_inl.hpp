// SPDX-License-Identifier: Apache-2.0
/// Computes which rank sends what to which replica.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// Tokens of one expert.
struct expert_flow {
  rank_id from;
  rank_id to;
  std::uint64_t tokens;
};

/// Computes for one expert which rank sends what to which replica, so that all shares are filled.
class flows_of_expert {
 public:
  flows_of_expert(token_counts const& counts, topology const& topo)
      : counts_{counts}, topo_{topo}, left_(static_cast<std::size_t>(counts.ranks())) {}

  /// The flows, by (source, receiver).
  std::span<expert_flow const> find(expert_id expert, balanced_shares const& shares) {
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
    std::ranges::sort(flows_, [](expert_flow const& a, expert_flow const& b) {
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
  std::vector<std::uint64_t> left_;  // [ranks]: tokens not sent yet
  std::vector<replica_share> room_;  // of all replicas: what is left of their shares
  std::vector<expert_flow> flows_;
};

/// @throws argument_error if there are too many tokens in total
inline void check_token_sum(token_counts const& counts) {
  constexpr auto most_tokens = std::uint64_t{1} << 48;
  auto sum = std::uint64_t{0};
  for (auto const tokens : counts.values()) {
    require(tokens < most_tokens - sum, "balanced_routing: ", tokens, " tokens, after ", sum,
            " of other counts; expected less than 2^48 in total");
    sum += tokens;
  }
}

}  // namespace detail

FSSDP_INLINE balanced_routing::balanced_routing(token_counts const& counts, placement held,
                                                topology const& given)
    : where_{std::move(held)} {
  auto const& where = where_;
  detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                  "balanced_routing: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                  " experts; the placement has ", where.ranks(), " and ", where.experts());
  detail::check_token_sum(counts);
  auto const topo = topology_or_one_node(given, where.ranks());
  auto const shares = balanced_shares{where, topo, token_demand{counts, topo}};
  auto expert_flows = detail::flows_of_expert{counts, topo};
  first_.assign(1, 0);
  for (auto const expert : first_n<expert_id>(where.experts())) {
    auto const flows = expert_flows.find(expert, shares);
    auto next = flows.begin();
    for (auto const source : first_n<rank_id>(where.ranks())) {
      for (; next != flows.end() && next->from == source; ++next)
        flows_.push_back({next->to, next->tokens});
      first_.push_back(flows_.size());
    }
  }
}

FSSDP_INLINE std::span<replica_share const> balanced_routing::shares_of(
    rank_id source, expert_id expert, std::uint64_t tokens) const {
  auto const row = expert.index() * static_cast<std::size_t>(where_.ranks()) + source.index();
  auto const shares = std::span{flows_}.subspan(first_[row], first_[row + 1] - first_[row]);
  auto counted = std::uint64_t{0};
  for (auto const& share : shares) counted += share.tokens;
  detail::require(tokens == counted, "balanced_routing: rank ", source, " routes ", tokens,
                  " tokens for expert ", expert, "; expected ", counted, ", as counted");
  return shares;
}

}  // namespace fssdp
