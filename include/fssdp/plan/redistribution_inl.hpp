// SPDX-License-Identifier: Apache-2.0
/// How the parts of a redistribution travel, and what that takes.
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
#include "fssdp/plan/moved_parts.hpp"
#include "fssdp/plan/part_length.hpp"
#include "fssdp/plan/part_senders.hpp"
#include "fssdp/plan/part_steps.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/plan/simulate.hpp"

namespace fssdp {

namespace detail {

template <class T>
[[nodiscard]] per_rank<T> one_behind_the_other(std::vector<std::vector<T>> const& lists) {
  auto table = per_rank<T>{};
  for (auto const& list : lists) {
    table.items.insert(table.items.end(), list.begin(), list.end());
    table.close();
  }
  return table;
}

/// Plans how parts travel that move together.
/// @pre there are some
[[nodiscard]] inline part_step plan_parts(std::vector<sent_part> const& found, topology const& topo,
                                          redistribution_options const& options) {
  auto const ranks = static_cast<std::size_t>(topo.ranks());
  auto sources = std::vector<std::vector<slot_part>>(ranks);
  auto targets = sources;
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
  auto const part_bytes = length * options.element_bytes;
  auto const plan = make_plan(layout, std::move(where), topo).with_rows(std::move(rows));
  auto in_other_order = options.schedule;
  in_other_order.senders = options.schedule.senders == sender_order::as_they_come
                               ? sender_order::busiest_first
                               : sender_order::as_they_come;
  auto const one = schedule(plan, part_bytes, options.schedule);
  auto const other = schedule(plan, part_bytes, in_other_order);
  auto const seconds = [&](transfer_plan const& of) { return simulate(of, part_bytes).seconds; };
  return {seconds(other) < seconds(one) ? other : one, part_bytes, one_behind_the_other(sources),
          one_behind_the_other(targets)};
}

/// Plans how all parts of tensors of one size travel: together, or in steps.
inline void plan_steps(std::vector<sent_part> const& found,
                       std::vector<std::vector<local_part>> const& local, distribution const& from,
                       distribution const& to, topology const& topo,
                       redistribution_options const& options, size_class& result) {
  result.local = one_behind_the_other(local);
  if (found.empty()) return;
  if (!options.in_place) {
    result.steps.push_back(plan_parts(found, topo, options));
    return;
  }
  auto const source_bytes =
      options.source_element_bytes == 0 ? options.element_bytes : options.source_element_bytes;
  auto const slots = slots_in_place{slice_elements(result.elements, from.slices()),
                                    slice_elements(result.elements, to.slices()), source_bytes,
                                    options.element_bytes};
  for (auto const& step : part_steps{found, local, slots}.take()) {
    auto parts = std::vector<sent_part>{};
    for (auto const part : step) parts.push_back(found[part]);
    result.steps.push_back(plan_parts(parts, topo, options));
  }
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
    sum.mix(one.steps.size());
    for (auto const& step : one.steps) {
      sum.mix(step.plan.hash_value());
      mix_parts(step.sources);
      mix_parts(step.targets);
    }
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
    auto const first_node = topo.node(holders.front().rank);
    auto const on_one = std::ranges::all_of(
        holders, [&](auto const& place) { return topo.node(place.rank) == first_node; });
    if (moves && holders.size() == 1) sum.out_of_rank[holders.front().rank.index()] += bytes;
    if (crosses && on_one) sum.out_of_node[first_node.index()] += bytes;
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
    detail::plan_steps(found, local, from, to, result.topology, options, made);
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
    for (auto const& step : classes()[of_tensor].steps)
      for (auto const& t : step.plan.transfers()) {
        auto const& plan = step.plan;
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
    for (auto const& step : classes()[c].steps)
      seconds += simulate(step.plan, tensors * step.part_bytes).seconds;
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
