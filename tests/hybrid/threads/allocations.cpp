// SPDX-License-Identifier: Apache-2.0
/// Once every layer has been averaged, nothing is allocated.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/allocation_counter.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::rank_id;

TEST_CASE("averaging allocates in the first step only") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const groups = fssdp::hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const layouts = support::owners_by_chance(5, 1, 1);
  auto const methods = std::vector<fssdp::any_compressor>{
      fssdp::full_compressor{},      fssdp::codec_compressor<fssdp::int8_codec>{},
      fssdp::top_dct_compressor{},   fssdp::ternary_compressor{},
      fssdp::low_rank_compressor{2}, fssdp::strided_compressor{},
      fssdp::random_compressor{},    fssdp::threshold_compressor{}};
  for (auto const& compressor : methods) {
    CAPTURE(compressor.description());
    auto world = fssdp::thread_world{2};
    auto const all = support::on_groups(world, groups, [&](auto&, auto&, auto& between) {
      auto exchange = fssdp::gradient_exchange{
          between, layouts, rank_id{0}, support::two_shapes(), {.compressor = compressor}};
      auto gradients = fssdp::expert_buffer<float>{5, support::sizes_of(support::two_shapes())};
      auto counts = std::vector<long>(2);
      for (int step = 0; step < 4; ++step) {
        auto const here = support::allocations_in([&] {
          for (auto const layer : fssdp::first_n<layer_id>(2)) exchange.average(layer, gradients);
          exchange.advance();
        });
        counts[step > 1 ? 1 : 0] += here;  // in the second one mailboxes still grow
      }
      return counts;
    });
    for (auto const& counts : all) {
      CHECK(counts[0] > 0);
      CHECK(counts[1] == 0);
    }
  }
}

TEST_CASE("rounds allocate in the first one only") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const layouts = support::owners_by_chance(5, 1, 1);
  auto world = fssdp::thread_world{2};
  auto const all = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
    auto rounds = fssdp::parameter_exchange{
        between, layouts, rank_id{0}, support::two_shapes(), {.outer = fssdp::diloco}};
    auto late = fssdp::delayed_exchange{between, layouts, rank_id{0}, support::two_shapes()};
    auto weights = fssdp::expert_buffer<float>{5, support::sizes_of(support::two_shapes())};
    for (auto const layer : fssdp::first_n<layer_id>(2)) {
      rounds.begin(layer, weights);
      late.begin(layer, weights);
    }
    auto counts = std::vector<long>(2);
    for (int round = 0; round < 4; ++round)
      counts[round > 1 ? 1 : 0] += support::allocations_in([&] {
        for (auto const layer : fssdp::first_n<layer_id>(2)) {
          rounds.synchronize(layer, weights);
          late.first_step(layer, weights);
          late.synchronize(layer, weights);
        }
        rounds.advance();
        late.advance();
      });
    return counts;
  });
  for (auto const& counts : all) {
    CHECK(counts[0] > 0);
    CHECK(counts[1] == 0);
  }
}
