// SPDX-License-Identifier: Apache-2.0
/// The program of the README of include/fssdp/hybrid.
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::layer_id;

TEST_CASE("groups exchange gradients as in the guide, and have equal ones") {
  auto const topology = fssdp::topology{{.nodes = 2, .ranks = 4}};
  constexpr auto rows = std::size_t{64};
  constexpr auto columns = std::size_t{128};
  auto const sizes = std::array{rows * columns};
  auto const layouts = fssdp::layer_stack{std::vector(
      2, fssdp::as_table(fssdp::block_layout{{.experts = 4, .ranks = 2}}))};  // of a group
  auto const policy = fssdp::materializer_policy{.placement = fssdp::everywhere{}};
  auto const options = fssdp::materializer_options{.replica_slots = 8, .partial_slots = 8};
  auto const after = support::on_all_ranks(4, [&](fssdp::thread_communicator& comm) {
    auto const in_group = fssdp::rank_id{comm.rank().value() % 2};
    auto weights = fssdp::make_shard<float>(layouts, in_group, sizes);
    auto gradients = fssdp::make_shard<float>(layouts, in_group, sizes);
    auto const forward_and_backward = [&](fssdp::materializer& layers) {
      for (auto const layer : fssdp::first_n<layer_id>(layers.layers())) {
        layers.acquire(layer);
        auto const partials = layers.partials<float>(layer);
        for (std::size_t e = 0; e < layers.experts<float>(layer).size(); ++e)
          for (std::size_t i = 0; auto& element : partials[0][e])
            element = static_cast<float>((comm.rank().value() * 7 + static_cast<int>(i++)) % 5 - 1);
        layers.release(layer);
        layers.reduce(layer);
      }
    };
    auto updates = 0;
    auto const optimizer = [&] { ++updates; };
#include "guides/include/fssdp/hybrid/README.md/1.inc"
    auto all = std::vector<float>{static_cast<float>(updates)};
    for (std::size_t slot = 0; slot < gradients.slots(); ++slot)
      std::ranges::copy(gradients.tensors()[0][slot], std::back_inserter(all));
    return all;
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    REQUIRE(after[rank].size() == 1 + 4 * rows * columns);
    REQUIRE(after[rank][0] == 1);
    REQUIRE(after[rank] == after[rank + 2]);
    REQUIRE(std::ranges::any_of(after[rank], [](float x) { return x < 0; }));  // signs
  }
}
