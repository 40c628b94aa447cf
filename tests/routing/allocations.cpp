// SPDX-License-Identifier: Apache-2.0
/// Judging placements does not allocate, once the largest has been seen.
#include <vector>

#include "catch.hpp"
#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "support/allocation_counter.hpp"
#include "support/laws.hpp"
#include "support/random_counts.hpp"

using support::allocations_in;
using support::random_instance;

namespace {

/// How often judge(where, topology, demand) allocates on many instances that it has judged before.
template <class Judge>
[[nodiscard]] long allocations_of_warm(Judge judge) {
  auto instances = std::vector<random_instance>{};
  auto demands = std::vector<fssdp::token_demand>{};
  support::for_random_instances(support::law_instances / 50, [&](random_instance const& of) {
    auto const counts = support::few_or_many_counts(of, instances.size());
    demands.emplace_back(counts, of.topo);
    instances.push_back(of);
  });
  auto const judge_all = [&] {
    for (std::size_t i = 0; i < instances.size(); ++i)
      judge(instances[i].where, instances[i].topo, demands[i]);
  };
  REQUIRE(allocations_in(judge_all) > 0);
  return allocations_in(judge_all);
}

}  // namespace

TEST_CASE("shares are found without an allocation") {
  auto shares = fssdp::balanced_shares{};
  REQUIRE(allocations_of_warm([&](auto const& where, auto const& topo, auto const& demand) {
            shares.assign(where, topo, demand);
          }) == 0);
}

TEST_CASE("costs are estimated without an allocation") {
  auto cost = fssdp::estimated_cost{};
  REQUIRE(allocations_of_warm([&](auto const& where, auto const& topo, auto const& demand) {
            (void)cost.seconds(where, topo, demand,
                               {.forward_seconds_per_row = 1, .token_bytes = 1});
          }) == 0);
}
