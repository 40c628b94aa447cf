// SPDX-License-Identifier: Apache-2.0
/// How well the library balances published loads, with one spare slot on each device.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"

namespace {

using fssdp::expert_loads;

/// Every device is the source of equally many tokens, up to the rest.
[[nodiscard]] fssdp::token_counts spread(expert_loads const& loads, int ranks) {
  auto const experts = loads.size();
  auto values = std::vector<std::uint64_t>(static_cast<std::size_t>(ranks) * experts);
  for (std::size_t e = 0; e < experts; ++e)
    for (auto n = std::uint64_t{0}; n < loads[e]; ++n)
      ++values[(n % static_cast<std::uint64_t>(ranks)) * experts + e];
  return {ranks, static_cast<int>(experts), std::move(values)};
}

/// Rows of the fullest device, as if links were free.
[[nodiscard]] double fullest(expert_loads const& loads, fssdp::table_layout const& owners,
                             int spare_slots) {
  auto const experts = owners.experts();
  auto const where =
      fssdp::cheapest_materialization{
          .budget = {experts, experts, spare_slots},
          .rates = {.forward_seconds_per_row = 1e-6, .token_bytes = 0, .expert_bytes = 1U << 20U}}(
          loads, owners);
  auto const counts = spread(loads, owners.ranks());
  auto const topo = fssdp::topology{{.nodes = 1, .ranks = owners.ranks()}};
  auto const routing = fssdp::balanced_routing{counts, where, topo};
  return static_cast<double>(std::ranges::max(fssdp::token_traffic{counts, routing, topo}.on_rank));
}
[[nodiscard]] double mean_of(expert_loads const& loads, int ranks) {
  auto sum = 0.0;
  for (auto const load : loads) sum += static_cast<double>(load);
  return sum / ranks;
}

}  // namespace

TEST_CASE("FlashLB's example: 182 on the fullest of 8 devices, where the mean is 181.25") {
  // Eight devices with two slots each (vLLM Ascend, FlashLB): EPLB 232, FlashLB 205.
  auto const loads = expert_loads{600, 560, 120, 120, 20, 10, 10, 10};
  auto const owners = fssdp::as_table(fssdp::block_layout{{.experts = 8, .ranks = 8}});
  CHECK(fullest(loads, owners, 1) <= 182);
  CHECK(mean_of(loads, 8) == Approx(181.25));
}

TEST_CASE("SmartMoE's loads: within 1 % of the mean on 16 devices with a spare slot") {
  // Iteration 501 of a GPT with 32 experts (SmartMoE-AE, moe_trace), layers 0, 1, 12 and 23: tokens
  // summed over its ranks and micro-batches; experts of fewer than 100 tokens as 0.
  auto const layers = std::vector<expert_loads>{
      {0, 9398, 0,     0,    14271, 33894, 0, 0,    0, 0,    18987, 0, 0, 0, 0, 680,
       0, 0,    54655, 7894, 0,     72921, 0, 2777, 0, 3859, 36094, 0, 0, 0, 0, 6634},
      {0,    1353, 0, 0,      184,   0,   0, 0, 12950, 5486,  0,    0, 140,  16900, 0, 23034,
       8590, 470,  0, 108935, 24193, 310, 0, 0, 1405,  47933, 1114, 0, 7922, 990,   0, 0},
      {1042, 0,     1385, 10457, 0,    0,   1171, 12787, 0, 0, 4208, 24997, 0,     0, 32457, 64870,
       4896, 17309, 0,    24523, 2851, 226, 254,  0,     0, 0, 101,  33698, 23699, 0, 0,     826},
      {0,     152,   4528, 0,     500,  0,    25868, 6315, 0,   38411, 7672,
       2009,  52347, 0,    24305, 4287, 8252, 32083, 5035, 0,   23822, 2971,
       14540, 0,     1112, 1651,  0,    0,    2435,  3642, 102, 0}};
  auto const topo = fssdp::topology{{.nodes = 1, .ranks = 16}};
  auto const owners = fssdp::heterogeneous_sharding{}(layers, topo);
  auto sum = 0.0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    CAPTURE(l);
    auto const over_mean = fullest(layers[l], owners[l], 1) / mean_of(layers[l], 16);
    CHECK(over_mean <= 1.03);
    sum += over_mean;
  }
  CHECK(sum / 4 <= 1.01);
}
