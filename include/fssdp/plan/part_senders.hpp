// SPDX-License-Identifier: Apache-2.0
/// Who sends which part to whom.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/plan/common_parts.hpp"
#include "fssdp/plan/distribution.hpp"
#include "fssdp/plan/moved_parts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Finds out who sends what. Remembers how much everyone has to send, so that it is evened out over
/// all tensors.
class part_senders {
 public:
  part_senders(distribution const& from, distribution const& to, topology const& topo)
      : from_{from},
        to_{to},
        topo_{topo},
        out_of_rank_(static_cast<std::size_t>(topo.ranks())),
        out_of_node_(static_cast<std::size_t>(topo.nodes())) {}

  /// The parts of tensors of one size, by expert, then by slice of the source.
  /// @param sent(part), local(rank, part) take what is found
  /// @throws argument_error if nobody has a part that is wanted
  template <class Sent, class Local>
  void find(std::size_t elements, Sent sent, Local local) {
    for_each_common_part(from_, to_, elements,
                         [&](chunk_id source, chunk_id target, common_part const& part) {
                           deal_out(source, target, part, sent, local);
                         });
  }

 private:
  template <class Sent, class Local>
  void deal_out(chunk_id source, chunk_id target, common_part const& where, Sent sent,
                Local local) {
    auto const holders = from_.places(source);
    auto const targets = to_.places(target);
    if (targets.empty()) return;
    require(!holders.empty(), "redistribution: nobody has elements ", where.first, " to ",
            where.first + where.elements, " of expert ", source.expert, " (slice ", source.slice,
            " of ", from_.slices(), "), and rank ", targets.front().rank,
            " wants them; expected a rank that has them");
    auto remote = std::vector<distribution::place>{};
    for (auto const& place : targets) {
      auto const own = std::ranges::find(holders, place.rank, &distribution::place::rank);
      if (own == holders.end())
        remote.push_back(place);
      else
        local(place.rank,
              local_part{
                  {own->slot, where.in_source}, {place.slot, where.in_target}, where.elements});
    }
    while (!remote.empty()) {
      auto const from = sender(holders, remote);
      auto part = sent_part{from.rank, {from.slot, where.in_source}, where.elements, {}};
      auto const serves = [&](distribution::place const& place) {
        auto const node = topo_.node(place.rank);
        return node == topo_.node(from.rank) || !is_on(node, holders);
      };
      for (auto const& place : remote)
        if (serves(place)) part.targets.push_back({place.rank, {place.slot, where.in_target}});
      std::erase_if(remote, serves);
      note(part);
      sent(std::move(part));
    }
  }

  [[nodiscard]] bool is_on(node_id node, std::span<distribution::place const> holders) const {
    return std::ranges::any_of(holders,
                               [&](auto const& place) { return topo_.node(place.rank) == node; });
  }

  /// Who sends next: to nodes that have not got the part, whoever is on the node with the least to
  /// send out; else somebody on the node of the first that lacks it.
  [[nodiscard]] distribution::place sender(std::span<distribution::place const> holders,
                                           std::vector<distribution::place> const& remote) const {
    auto const crosses = std::ranges::any_of(
        remote, [&](auto const& place) { return !is_on(topo_.node(place.rank), holders); });
    auto const first_node = topo_.node(remote.front().rank);
    auto best = distribution::place{};
    auto least = std::tuple{std::numeric_limits<std::size_t>::max(), std::size_t{0}};
    for (auto const& place : holders) {
      auto const node = topo_.node(place.rank);
      if (!crosses && node != first_node) continue;
      auto const to_send =
          std::tuple{crosses ? out_of_node_[node.index()] : 0, out_of_rank_[place.rank.index()]};
      if (to_send >= least) continue;
      least = to_send;
      best = place;
    }
    return best;
  }

  void note(sent_part const& part) {
    out_of_rank_[part.source.index()] += part.elements;
    auto const node = topo_.node(part.source);
    for (auto const& [rank, place] : part.targets)
      if (topo_.node(rank) != node) {
        out_of_node_[node.index()] += part.elements;
        return;
      }
  }

  distribution const& from_;
  distribution const& to_;
  topology const& topo_;
  std::vector<std::size_t> out_of_rank_;  // elements
  std::vector<std::size_t> out_of_node_;
};

}  // namespace fssdp::detail
