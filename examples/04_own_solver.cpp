// SPDX-License-Identifier: Apache-2.0
// A placement solver of your own, beside those of the library: which experts get replicas, and
// where. A solver is a pure function from loads and a layout to a placement.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "fssdp/fssdp.hpp"
#include "program/standard_output.hpp"

namespace {

using fssdp::expert_id;
using fssdp::rank_id;

/// The load of each rank if the tokens of an expert spread evenly over all that hold it.
std::vector<std::uint64_t> rank_loads(fssdp::placement const& where,
                                      std::span<std::uint64_t const> loads) {
  auto on_rank = std::vector<std::uint64_t>(static_cast<std::size_t>(where.ranks()));
  for (auto const expert : fssdp::first_n<expert_id>(where.experts()))
    for (auto const rank : where.holders(expert))
      on_rank[rank.index()] += loads[expert.index()] / where.holders(expert).size();
  return on_rank;
}

/// As long as it helps, gives the heaviest part of the fullest rank a replica on the emptiest.
struct relieve_the_fullest {
  int replicas = 0;  ///< at most, over all ranks

  template <fssdp::shard_layout Layout>
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            Layout const& layout) const {
    if (loads.size() != static_cast<std::size_t>(layout.experts()))
      throw fssdp::argument_error{"relieve_the_fullest: loads of " + std::to_string(loads.size()) +
                                  " experts; expected " + std::to_string(layout.experts())};
    auto where = fssdp::placement{layout};
    for (int i = 0; i < replicas; ++i) {
      auto const on_rank = rank_loads(where, loads);
      auto const fullest = rank_id{std::ranges::max_element(on_rank) - on_rank.begin()};
      auto const emptiest = rank_id{std::ranges::min_element(on_rank) - on_rank.begin()};
      auto heaviest = expert_id{-1};
      auto most = std::uint64_t{0};
      for (auto const expert : fssdp::first_n<expert_id>(layout.experts())) {
        auto const part = loads[expert.index()] / where.holders(expert).size();
        if (!where.holds(fullest, expert) || where.holds(emptiest, expert) || part <= most)
          continue;
        heaviest = expert;
        most = part;
      }
      if (most == 0) break;
      where.add(heaviest, emptiest);
    }
    return where;
  }
};

static_assert(fssdp::placement_solver<relieve_the_fullest>);

/// Cost and gain of a placement, by any model of placement_solver.
template <fssdp::placement_solver Solver>
void show(char const* name, Solver const& solve, std::span<std::uint64_t const> loads,
          fssdp::block_layout const& layout) {
  auto const where = solve(loads, layout);
  auto const plan = fssdp::make_plan(layout, where);
  fssdp::verify(plan);
  auto most = std::size_t{0};
  for (auto const rank : fssdp::first_n<rank_id>(layout.ranks()))
    most = std::max(most, plan.remote(rank).size());
  std::printf("%-38s  %13.2f  %15zu  %20zu\n", name, fssdp::max_over_mean(rank_loads(where, loads)),
              plan.transfers().size(), most);
}

}  // namespace

int main() {
  auto const layout = fssdp::block_layout{{.experts = 16, .ranks = 4}};
  auto const loads =
      fssdp::expert_loads{900, 20, 40, 60, 500, 30, 20, 10, 80, 70, 60, 50, 40, 30, 20, 10};
  std::printf("%-38s  %13s  %15s  %20s\n", "solver", "load max/mean", "experts to move",
              "replicas on one rank");
  show("owners_only (EP)", fssdp::owners_only{}, loads, layout);
  show("everywhere (FSDP)", fssdp::everywhere{}, loads, layout);
  show("sparse_materialization{t = 4, m = 2}",
       fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2}, loads, layout);
  show("relieve_the_fullest{4}, your own", relieve_the_fullest{.replicas = 4}, loads, layout);
  return program::output_was_taken("04_own_solver") ? 0 : 1;
}
