// SPDX-License-Identifier: Apache-2.0
/// Who holds which experts: the cases of fssdp_perf and inspect_plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "cases/case_kind.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "fssdp/topology/topology.hpp"

namespace cases {

/// A layout and a placement on a topology.
struct scene {
  fssdp::topology topology;
  fssdp::block_layout layout;
  fssdp::placement where;
};

namespace detail {

/// Draws that are the same in every standard library.
class draws {
 public:
  explicit draws(std::uint64_t seed) : engine_{seed} {}

  /// One of 0, 1, ..., last.
  [[nodiscard]] int up_to(int last) {
    return static_cast<int>(engine_() % (static_cast<std::uint64_t>(last) + 1));
  }
  /// Some of the items, each at most once, in the order drawn.
  template <class Item>
  [[nodiscard]] std::vector<Item> some(std::vector<Item> items, int count) {
    auto const wanted = std::min(static_cast<std::size_t>(count), items.size());
    for (std::size_t i = 0; i < wanted; ++i) {
      auto const left = static_cast<int>(items.size() - i);
      std::swap(items[i], items[i + static_cast<std::size_t>(up_to(left - 1))]);
    }
    items.resize(wanted);
    return items;
  }

 private:
  std::mt19937_64 engine_;
};

template <class Index>
[[nodiscard]] std::vector<Index> all(int count) {
  auto const range = fssdp::first_n<Index>(count);
  return {range.begin(), range.end()};
}

/// Every expert gets replicas(draw) random ranks besides its owner.
template <class Replicas>
void scatter(fssdp::placement& where, fssdp::block_layout const& layout, draws& draw,
             Replicas replicas) {
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts())) {
    auto others = all<fssdp::rank_id>(layout.ranks());
    std::erase(others, layout.owner(expert));
    for (auto const rank : draw.some(std::move(others), replicas(draw))) where.add(expert, rank);
  }
}

inline void spread(fssdp::placement& where, std::span<fssdp::expert_id const> experts) {
  for (auto const expert : experts)
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(where.ranks())) where.add(expert, rank);
}

/// Tokens per expert: the one that comes i-th has 1 / i of the first; who it is, is drawn.
[[nodiscard]] inline fssdp::expert_loads zipf_loads(int experts, draws& draw) {
  auto loads = fssdp::expert_loads(static_cast<std::size_t>(experts));
  auto place = std::uint64_t{0};
  for (auto const expert : draw.some(all<fssdp::expert_id>(experts), experts))
    loads[expert.index()] = 1'000'000 / ++place;
  return loads;
}

}  // namespace detail

/// Places the experts of one case. A pure function.
/// @throws fssdp::argument_error if there is no expert
[[nodiscard]] inline scene make_scene(case_kind which, fssdp::topology const& topo, int experts,
                                      std::uint64_t seed) {
  auto const ranks = topo.ranks();
  auto const layout = fssdp::block_layout{{.experts = experts, .ranks = ranks}};
  auto where = fssdp::placement{layout};
  auto draw = detail::draws{seed};
  auto const hot = std::max(1, experts / 16);
  auto candidates = detail::all<fssdp::expert_id>(experts);
  switch (which) {
    case case_kind::pairs:
      detail::scatter(where, layout, draw, [](detail::draws&) { return 2; });
      break;
    case case_kind::random:
      detail::scatter(where, layout, draw, [&](detail::draws& d) { return d.up_to(ranks / 3); });
      break;
    case case_kind::hot_node:
      std::erase_if(candidates, [&](fssdp::expert_id expert) {
        return topo.node(layout.owner(expert)) != fssdp::node_id{0};
      });
      [[fallthrough]];
    case case_kind::hot:
      detail::spread(where, draw.some(candidates, hot));
      break;
    case case_kind::zipf: {
      auto const solve =
          fssdp::sparse_materialization{.overlap = experts / 4, .spare_slots = 4, .topology = topo};
      where = solve(detail::zipf_loads(experts, draw), layout);
      break;
    }
  }
  return {topo, layout, std::move(where)};
}

/// How often an expert is held by a rank that does not own it.
[[nodiscard]] inline int replicas(scene const& of) {
  auto count = 0;
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    count += of.where.held_count(rank);
  return count - of.layout.experts();
}

/// The same experts, every one of them everywhere.
[[nodiscard]] inline scene everywhere(scene const& of) {
  return {of.topology, of.layout, fssdp::everywhere{}(of.layout)};
}

}  // namespace cases
