// SPDX-License-Identifier: Apache-2.0
/// A shard has a slot for each chunk that its rank owns.
#include "fssdp/layout/make_shard.hpp"

#include <array>
#include <string>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "support/counting_memory.hpp"

TEST_CASE("a shard is [owned, elements] per tensor") {
  auto const layout = fssdp::block_layout{{.experts = 5, .ranks = 3}};
  auto const sizes = std::array<std::size_t, 2>{7, 2};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(3)) {
    auto const shard = fssdp::make_shard<float>(layout, rank, sizes);
    REQUIRE(shard.slots() == layout.owned(rank).size());
    REQUIRE(shard.tensors().size() == 2);
    REQUIRE(shard.tensors()[0].elements == 7);
    REQUIRE(shard.tensors()[1].elements == 2);
  }
  REQUIRE(fssdp::make_shard<float>(layout, fssdp::rank_id{0}, 9).tensors()[0].elements == 9);
}

TEST_CASE("a rank that owns nothing has an empty shard") {
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = 3}};
  REQUIRE(fssdp::make_shard<float>(layout, fssdp::rank_id{2}, 9).slots() == 0);
}

TEST_CASE("a shard lies where it is told to") {
  auto const layout = fssdp::block_layout{{.experts = 5, .ranks = 3}};
  auto memory = support::counting_memory{};
  auto const shard = fssdp::make_shard<float>(layout, fssdp::rank_id{0}, 9, &memory);
  REQUIRE(shard.resource() == &memory);
  REQUIRE(memory.bytes() == shard.bytes());
}

TEST_CASE("a shard of a rank that does not exist is refused") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const table = fssdp::as_table(layout);
  for (auto const rank : {-1, 2, 9}) {
    REQUIRE_THROWS_AS(fssdp::make_shard<float>(layout, fssdp::rank_id{rank}, 4),
                      fssdp::argument_error);
    REQUIRE_THROWS_WITH(
        fssdp::make_shard<float>(table, fssdp::rank_id{rank}, 4),
        mentions("make_shard: rank " + std::to_string(rank)) && mentions("expected 0 to 1"));
  }
}
