// SPDX-License-Identifier: Apache-2.0
/// Gradients that a device has are averaged as those of the host.
#include "fssdp/hybrid/staged_shard.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/late_staging.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::rank_id;

TEST_CASE("an exchange of gradients of a device has the bits of one of the host's") {
  auto const layouts = support::owners_by_chance(5, 1, 1);
  for (std::size_t const bytes : {64U, 300U, 100'000U}) {
    CAPTURE(bytes);
    auto world = fssdp::thread_world{2};
    auto const all = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
      auto hashes = std::vector<std::uint64_t>{};
      for (auto const is_staged : {false, true}) {
        auto staging = support::late_staging{bytes};
        auto shard = fssdp::staged_shard{staging};
        auto exchange =
            fssdp::gradient_exchange{between, layouts, rank_id{0}, support::two_shapes(),
                                     fssdp::demo(fssdp::top_dct_compressor{})};
        auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
        for (std::uint64_t step = 0; step < 3; ++step) {
          for (auto const layer : fssdp::first_n<layer_id>(2)) {
            support::write_gradients(layouts, layer, rank_id{0}, between.rank().value(), step,
                                     gradients);
            if (is_staged) {
              exchange.average(layer, shard.read(gradients));
              shard.write(gradients);
            } else {
              exchange.average(layer, gradients);
            }
            hashes.push_back(fssdp::hash_of_bits(gradients));
          }
          exchange.advance();
        }
      }
      return hashes;
    });
    for (auto const& hashes : all) {
      auto const half = hashes.size() / 2;
      REQUIRE(half == 6);
      for (std::size_t i = 0; i < half; ++i) CHECK(hashes[i] == hashes[half + i]);
      CHECK(hashes[0] != hashes[2]);
    }
    CHECK(all[0] == all[1]);
  }
}

TEST_CASE("tensors of other shapes follow one another in the same copy") {
  auto staging = support::late_staging{128};
  auto shard = fssdp::staged_shard{staging};
  for (std::size_t const slots : {3U, 1U, 4U, 0U}) {
    auto device = fssdp::expert_buffer<float>{slots, std::vector<std::size_t>{slots * 10 + 7, 5}};
    auto expected = 0.0F;
    for (auto const& tensor : device.tensors())
      for (std::size_t slot = 0; slot < slots; ++slot)
        for (auto& value : tensor[slot]) value = expected += 1;
    auto sum = 0.0F;
    for (auto const& tensor : shard.read(device))
      for (std::size_t slot = 0; slot < slots; ++slot)
        for (auto& value : tensor[slot]) sum += value, value = -value;
    CHECK(sum == expected * (expected + 1) / 2);
    shard.write(device);
    auto back = 0.0F;
    for (auto const& tensor : device.tensors())
      for (std::size_t slot = 0; slot < slots; ++slot)
        for (auto const value : tensor[slot]) back -= value;
    CHECK(back == sum);
  }
}
