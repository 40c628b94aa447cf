// SPDX-License-Identifier: Apache-2.0
/// New owners only where they save more time than the move takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/resharding_solver.hpp"
#include "fssdp/solver/sharding_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The gain and the cost of new owners, and the owners if the gain is larger.
template <shard_layout Layout>
struct resharding_verdict {
  std::optional<std::vector<Layout>> layouts;  ///< [layers]; none: owners stay
  double gained_seconds = 0;                   ///< until the next resharding; negative: lost
  double moved_seconds = 0;                    ///< the time that the busiest port takes
  std::uint64_t moved_bytes = 0;               ///< through that port
};

/// A sharding solver combined with a decision whether its owners pay.
///
/// A layer takes as long as its fullest rank: `seconds_per_row` for each of its rows, where
/// `materialization` decides who holds an expert, and the holders of an expert share its load
/// evenly. The gain is the time that the new owners save, over all layers and `iterations`. The
/// cost is the time of the busiest port: the chunks that a rank sends or receives inside its node,
/// or through an interface between nodes. The result has new owners if the gain is larger than the
/// cost.
/// (Algorithm 2 of the paper; the paper re-shards at fixed intervals.)
/// @cost that of the solvers, and O(layers * experts * ranks); a pure function
template <sharding_solver Sharding = heterogeneous_sharding, class Materialization = owners_only>
struct resharding {
  Sharding sharding = {};
  Materialization materialization = {};  ///< the placement solver, applied to both layouts
  double seconds_per_row = 0;            ///< of computation, forward and backward
  std::size_t chunk_bytes = 0;           ///< of all that moves with one expert or slice
  int iterations = 1;                    ///< until owners can change again

  /// @param current [layers] layouts
  /// @param loads   [layers] of [experts], in tokens of one iteration, as load_average predicts
  ///        them
  /// @post gained_seconds > moved_seconds, or there are no layouts
  /// @throws argument_error if an option is negative; unless there are as many layouts as loads,
  ///         with the experts of the loads, the ranks of the topology, and the slices of the new
  ///         layouts; as the solvers
  template <std::ranges::random_access_range Layouts>
  requires shard_layout<std::ranges::range_value_t<Layouts>> &&
      placement_solver<Materialization, std::ranges::range_value_t<Layouts>>
  [[nodiscard]] auto operator()(Layouts const& current, std::span<expert_loads const> loads,
                                topology const& topo) const {
    check(static_cast<std::size_t>(std::ranges::size(current)), loads.size());
    auto next = sharding(loads, topo);
    using layout = std::ranges::range_value_t<decltype(next)>;
    auto layouts = std::vector<layout>(std::ranges::begin(next), std::ranges::end(next));
    detail::require(layouts.size() == loads.size(), "resharding: the solver returned layouts for ",
                    layouts.size(), " layers; expected ", loads.size());
    auto less = signed_wide{0};
    auto ports = port_use{topo};
    for (std::size_t layer = 0; layer < loads.size(); ++layer) {
      auto const& from = *(std::ranges::begin(current) + static_cast<std::ptrdiff_t>(layer));
      auto const& to = layouts[layer];
      check_layout(from);
      detail::require(from.experts() == to.experts() && from.slices() == to.slices() &&
                          from.ranks() == to.ranks() && to.ranks() == topo.ranks(),
                      "resharding: layer ", layer, " has ", from.experts(), " experts in ",
                      from.slices(), " slices on ", from.ranks(), " ranks; expected ", to.experts(),
                      " in ", to.slices(), " on ", topo.ranks());
      less += fullest(loads[layer], from) - fullest(loads[layer], to);
      for (auto const chunk : all_chunks(from)) ports.move(from.owner(chunk), to.owner(chunk));
    }
    auto verdict = resharding_verdict<layout>{};
    verdict.gained_seconds =
        static_cast<double>(less) / static_cast<double>(1U << point) * seconds_per_row * iterations;
    auto const busiest = ports.busiest(chunk_bytes);
    verdict.moved_seconds = busiest.seconds;
    verdict.moved_bytes = busiest.bytes;
    if (verdict.gained_seconds > verdict.moved_seconds) verdict.layouts = std::move(layouts);
    return verdict;
  }

 private:
  __extension__ typedef __int128 signed_wide;
  static constexpr int point = 16;  // fractional bits of a shared load

  void check(std::size_t layouts, std::size_t layers) const {
    detail::require(seconds_per_row >= 0, "resharding: seconds_per_row is ", seconds_per_row,
                    "; expected 0 or more");
    detail::require(iterations >= 0, "resharding: iterations is ", iterations,
                    "; expected 0 or more");
    detail::require(layouts == layers, "resharding: layouts of ", layouts, " layers; expected ",
                    layers, ", as many as loads");
  }

  /// The load of the fullest rank in one layer, with `point` fractional bits.
  template <shard_layout Layout>
  [[nodiscard]] signed_wide fullest(expert_loads const& loads, Layout const& layout) const {
    auto const where = materialization(loads, layout);
    auto on_rank = std::vector<signed_wide>(static_cast<std::size_t>(layout.ranks()));
    for (auto const expert : first_n<expert_id>(layout.experts())) {
      auto const holders = where.holders(expert);
      auto const share = (static_cast<signed_wide>(loads[expert.index()]) << point) /
                         static_cast<signed_wide>(holders.size());
      for (auto const rank : holders) on_rank[rank.index()] += share;
    }
    return std::ranges::max(on_rank);
  }

  /// The number of chunks that go through each port.
  class port_use {
   public:
    explicit port_use(topology const& topo)
        : topo_{topo}, use_(static_cast<std::size_t>(topo.ranks())) {}

    void move(rank_id from, rank_id to) {
      if (from == to) return;
      auto const inside = topo_.same_node(from, to);
      auto const source = inside ? from : topo_.interface_of(from);
      auto const destination = inside ? to : topo_.interface_of(to);
      auto& out = use_[source.index()];
      auto& in = use_[destination.index()];
      ++(inside ? out.inside_out : out.between_out);
      ++(inside ? in.inside_in : in.between_in);
    }

    struct port_load {
      double seconds = 0;
      std::uint64_t bytes = 0;
    };
    /// The port that takes longest; of equal ones, the first.
    [[nodiscard]] port_load busiest(std::size_t bytes_each) const {
      auto most = port_load{};
      auto const consider = [&](std::uint64_t chunks, double bytes_per_second) {
        auto const bytes = chunks * bytes_each;
        auto const seconds = static_cast<double>(bytes) / bytes_per_second;
        if (seconds > most.seconds) most = {seconds, bytes};
      };
      for (auto const rank : first_n<rank_id>(topo_.ranks())) {
        auto const& use = use_[rank.index()];
        auto const& port = topo_.port(rank);
        consider(std::max(use.inside_out, use.inside_in), port.inside_bytes_per_second);
        consider(std::max(use.between_out, use.between_in), port.between_bytes_per_second);
      }
      return most;
    }

   private:
    struct chunk_counts {
      std::uint64_t inside_out = 0;
      std::uint64_t inside_in = 0;
      std::uint64_t between_out = 0;
      std::uint64_t between_in = 0;
    };
    topology const& topo_;
    std::vector<chunk_counts> use_;  // [ranks]; of an interface between nodes at its rank
  };
};

static_assert(resharding_solver<resharding<>, table_layout>);

}  // namespace fssdp
