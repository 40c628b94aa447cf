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
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/common_parts.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/part_length.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/plan/simulate.hpp"

namespace fssdp {

namespace detail {

/// A part on its way from one rank to some that lack it.
struct sent_part {
  rank_id source;
  slot_part from;
  std::size_t elements = 0;
  std::vector<std::pair<rank_id, slot_part>> targets;
};

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
    auto const home = topo_.node(remote.front().rank);
    auto best = distribution::place{};
    auto least = std::tuple{std::numeric_limits<std::size_t>::max(), std::size_t{0}};
    for (auto const& place : holders) {
      auto const node = topo_.node(place.rank);
      if (!crosses && node != home) continue;
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

template <class T>
[[nodiscard]] per_rank<T> one_behind_the_other(std::vector<std::vector<T>> const& lists) {
  auto table = per_rank<T>{};
  for (auto const& list : lists) {
    table.items.insert(table.items.end(), list.begin(), list.end());
    table.close();
  }
  return table;
}

/// Cuts parts to about equal length, so that they can be scheduled alike.
[[nodiscard]] inline std::vector<sent_part> cut_to_length(std::vector<sent_part> const& parts,
                                                          std::size_t length) {
  auto cut = std::vector<sent_part>{};
  for (auto const& whole : parts)
    for (std::size_t at = 0; at < whole.elements; at += length) {
      auto& part = cut.emplace_back(whole);
      part.elements = std::min(length, whole.elements - at);
      part.from.first += at;
      for (auto& [rank, place] : part.targets) place.first += at;
    }
  return cut;
}

/// Plans how parts travel.
inline void plan_parts(std::vector<sent_part> const& found, topology const& topo,
                       redistribution_options const& options, size_class& result) {
  auto const ranks = static_cast<std::size_t>(topo.ranks());
  auto sources = std::vector<std::vector<slot_part>>(ranks);
  auto targets = sources;
  if (!found.empty()) {
    auto lengths = std::vector<std::size_t>{};
    for (auto const& part : found) lengths.push_back(part.elements);
    auto const least = std::max(options.schedule.least_bytes, options.schedule.piece_bytes);
    auto const length = part_length(lengths, least / options.element_bytes);
    auto const parts = cut_to_length(found, length);
    auto owners = std::vector<rank_id>{};
    auto rows = std::vector<std::size_t>{};
    for (auto const& part : parts) {
      owners.push_back(part.source);
      rows.push_back(part.elements);
      sources[part.source.index()].push_back(part.from);
    }
    auto const layout = table_layout{{.ranks = topo.ranks()}, std::move(owners)};
    auto where = placement{layout};
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (auto const& [rank, place] : parts[p].targets) {
        where.add(expert_id{p}, rank);
        targets[rank.index()].push_back(place);
      }
    result.part_bytes = length * options.element_bytes;
    auto const plan = make_plan(layout, std::move(where), topo).with_rows(std::move(rows));
    auto in_other_order = options.schedule;
    in_other_order.senders = options.schedule.senders == sender_order::as_they_come
                                 ? sender_order::busiest_first
                                 : sender_order::as_they_come;
    auto const one = schedule(plan, result.part_bytes, options.schedule);
    auto const other = schedule(plan, result.part_bytes, in_other_order);
    auto const seconds = [&](transfer_plan const& of) {
      return simulate(of, result.part_bytes).seconds;
    };
    result.plan.push_back(seconds(other) < seconds(one) ? other : one);
  }
  result.sources = one_behind_the_other(sources);
  result.targets = one_behind_the_other(targets);
}

[[nodiscard]] inline std::uint64_t hash_of(distribution const& from, distribution const& to,
                                           std::span<std::size_t const> elements,
                                           std::vector<size_class> const& classes) {
  auto sum = hasher{};
  auto const mix_parts = [&](per_rank<slot_part> const& of) {
    for (auto const& [slot, first] : of.items) {
      sum.mix(slot);
      sum.mix(first);
    }
  };
  for (auto const* where : {&from, &to}) {
    sum.mix(where->experts(), where->slices());
    for (auto const rank : first_n<rank_id>(where->ranks())) {
      sum.mix(where->slots(rank).size());
      for (auto const chunk : where->slots(rank))
        sum.mix(chunk.expert.value(), chunk.slice.value());
    }
  }
  for (auto const of_tensor : elements) sum.mix(of_tensor);
  for (auto const& one : classes) {
    for (auto const& plan : one.plan) sum.mix(plan.hash_value());
    mix_parts(one.sources);
    mix_parts(one.targets);
  }
  return sum.value();
}

/// Bytes that no way to do it can avoid, by port.
struct forced_bytes {
  std::vector<double>& into_rank;
  std::vector<double>& out_of_rank;
  std::vector<double>& into_node;
  std::vector<double>& out_of_node;
};

/// Adds those of the parts of one tensor.
inline void add_forced(distribution const& from, distribution const& to, topology const& topo,
                       std::size_t elements, std::size_t element_bytes, forced_bytes const& sum) {
  auto missing_on = std::vector<char>(sum.into_node.size());
  auto const add = [&](std::span<distribution::place const> holders,
                       std::span<distribution::place const> targets, double bytes) {
    auto const has = [&](rank_id rank) {
      return std::ranges::find(holders, rank, &distribution::place::rank) != holders.end();
    };
    auto const has_node = [&](node_id node) {
      return std::ranges::any_of(holders,
                                 [&](auto const& place) { return topo.node(place.rank) == node; });
    };
    auto moves = false;
    auto crosses = false;
    std::ranges::fill(missing_on, 0);
    for (auto const& place : targets) {
      if (has(place.rank)) continue;
      auto const node = topo.node(place.rank);
      moves = true;
      sum.into_rank[place.rank.index()] += bytes;
      if (has_node(node) || std::exchange(missing_on[node.index()], 1) != 0) continue;
      sum.into_node[node.index()] += bytes;
      crosses = true;
    }
    if (holders.empty()) return;
    auto const home = topo.node(holders.front().rank);
    auto const on_one = std::ranges::all_of(
        holders, [&](auto const& place) { return topo.node(place.rank) == home; });
    if (moves && holders.size() == 1) sum.out_of_rank[holders.front().rank.index()] += bytes;
    if (crosses && on_one) sum.out_of_node[home.index()] += bytes;
  };
  for_each_common_part(from, to, elements,
                       [&](chunk_id source, chunk_id target, common_part const& part) {
                         add(from.places(source), to.places(target),
                             static_cast<double>(part.elements * element_bytes));
                       });
}

}  // namespace detail

FSSDP_INLINE redistribution::tables redistribution::tables_of(
    distribution const& from, distribution const& to, std::span<std::size_t const> elements,
    fssdp::topology const& topo, redistribution_options const& options) {
  detail::require(from.experts() == to.experts() && from.ranks() == to.ranks(),
                  "redistribution: from ", from.experts(), " experts on ", from.ranks(),
                  " ranks to ", to.experts(), " on ", to.ranks(), "; expected equal numbers");
  detail::require(options.element_bytes >= 1,
                  "redistribution: elements of 0 bytes; expected at least 1");
  auto result = tables{from,
                       to,
                       {elements.begin(), elements.end()},
                       topology_or_one_node(topo, from.ranks()),
                       options.element_bytes,
                       {},
                       {}};
  auto senders = detail::part_senders{result.from, result.to, result.topology};
  for (auto const of_tensor : elements) {
    auto const known = std::ranges::find(result.classes, of_tensor, &detail::size_class::elements);
    result.class_of.push_back(static_cast<std::size_t>(known - result.classes.begin()));
    if (known != result.classes.end()) continue;
    auto& made = result.classes.emplace_back();
    made.elements = of_tensor;
    auto found = std::vector<detail::sent_part>{};
    auto local =
        std::vector<std::vector<detail::local_part>>(static_cast<std::size_t>(from.ranks()));
    senders.find(
        of_tensor, [&](detail::sent_part part) { found.push_back(std::move(part)); },
        [&](rank_id rank, detail::local_part const& part) { local[rank.index()].push_back(part); });
    detail::plan_parts(found, result.topology, options, made);
    made.local = detail::one_behind_the_other(local);
  }
  result.hash = detail::hash_of(from, to, elements, result.classes);
  return result;
}

FSSDP_INLINE redistribution::redistribution(distribution const& from, distribution const& to,
                                            std::span<std::size_t const> elements,
                                            fssdp::topology const& topo,
                                            redistribution_options const& options)
    : tables_{tables_of(from, to, elements, topo, options)} {}

FSSDP_INLINE redistribution::traffic redistribution::bytes() const {
  auto sum = traffic{};
  for (auto const of_tensor : tables_->class_of)
    for (auto const& plan : classes()[of_tensor].plan)
      for (auto const& t : plan.transfers()) {
        auto const part = piece_extent{plan.rows(t.chunk.expert), t.piece, plan.pieces()};
        auto const bytes = std::uint64_t{part.elements * element_bytes()};
        sum.total += bytes;
        if (!plan.topology().same_node(t.source, t.destination)) sum.between_nodes += bytes;
      }
  return sum;
}

FSSDP_INLINE double redistribution::simulated_seconds() const {
  auto seconds = 0.0;
  for (std::size_t c = 0; c < classes().size(); ++c) {
    auto const tensors = static_cast<std::size_t>(std::ranges::count(tables_->class_of, c));
    for (auto const& plan : classes()[c].plan)
      seconds += simulate(plan, tensors * classes()[c].part_bytes).seconds;
  }
  return seconds;
}

FSSDP_INLINE double redistribution::bound_seconds() const {
  auto const& topo = topology();
  auto const ranks = static_cast<std::size_t>(topo.ranks());
  auto const nodes = static_cast<std::size_t>(topo.nodes());
  auto into_rank = std::vector<double>(ranks);
  auto out_of_rank = into_rank;
  auto into_node = std::vector<double>(nodes);
  auto out_of_node = into_node;
  for (auto const of_tensor : elements())
    detail::add_forced(from(), to(), topo, of_tensor, element_bytes(),
                       {into_rank, out_of_rank, into_node, out_of_node});
  auto const many = topo.nodes() > 1;
  auto bound = 0.0;
  auto crossing = 0.0;
  auto network = 0.0;
  for (auto const node : first_n<node_id>(topo.nodes())) {
    auto const interfaces = node_bandwidth(topo, node);
    auto wanted = 0.0;
    auto inside = 0.0;
    for (auto const rank : topo.ranks_on(node)) {
      auto const port = topo.port(rank).inside_bytes_per_second;
      auto const both =
          port + (many ? topo.port(topo.interface_of(rank)).between_bytes_per_second : 0.0);
      bound = std::max({bound, into_rank[rank.index()] / both, out_of_rank[rank.index()] / both});
      wanted += into_rank[rank.index()];
      inside += port;
    }
    bound = std::max(bound, wanted / (inside + (many ? interfaces : 0.0)));
    if (many)
      bound = std::max(
          {bound, into_node[node.index()] / interfaces, out_of_node[node.index()] / interfaces});
    crossing += into_node[node.index()];
    network += interfaces;
  }
  return many ? std::max(bound, crossing / network) : bound;
}

}  // namespace fssdp
