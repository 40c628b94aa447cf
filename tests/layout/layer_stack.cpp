// SPDX-License-Identifier: Apache-2.0
/// layer_stack: the experts of all layers in one row, and views of one layer's shard.
#include "fssdp/layout/layer_stack.hpp"

#include <array>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/lists.hpp"
#include "support/random_owners.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::layer_id;
using fssdp::layer_shard;
using fssdp::layer_stack;
using fssdp::rank_id;
using fssdp::table_layout;

namespace {

[[nodiscard]] table_layout table(int ranks, std::vector<int> const& owners, int slices = 1) {
  auto list = std::vector<rank_id>{};
  for (auto const owner : owners) list.emplace_back(owner);
  return {{.ranks = ranks, .slices = slices}, list};
}

/// Three layers of two experts on three ranks; rank 1 owns nothing of layer 0, rank 2 only that.
[[nodiscard]] layer_stack<> three_layers() {
  return layer_stack<>{{table(3, {2, 0}), table(3, {1, 1}), table(3, {1, 0})}};
}

[[nodiscard]] std::vector<int> owned(layer_stack<> const& stack, int rank) {
  auto experts = std::vector<int>{};
  for (auto const chunk : stack.owned(rank_id{rank})) experts.push_back(chunk.expert.value());
  return experts;
}

}  // namespace

TEST_CASE("expert e of layer l is expert l * experts_per_layer + e") {
  auto const stack = three_layers();
  REQUIRE(stack.layers() == 3);
  REQUIRE(stack.experts_per_layer() == 2);
  REQUIRE(stack.experts() == 6);
  auto owners = std::vector<int>{};
  for (auto const expert : fssdp::first_n<expert_id>(6))
    owners.push_back(stack.owner(expert).value());
  REQUIRE(owners == std::vector{2, 0, 1, 1, 1, 0});
  REQUIRE(stack.layer(layer_id{1}) == table(3, {1, 1}));
}

TEST_CASE("the shards of a rank lie one after the other, layer by layer") {
  auto const stack = three_layers();
  REQUIRE(owned(stack, 0) == std::vector{1, 5});
  REQUIRE(owned(stack, 1) == std::vector{2, 3, 4});
  REQUIRE(owned(stack, 2) == std::vector{0});
  auto const first = [&](int layer, int rank) {
    return stack.first_slot(layer_id{layer}, rank_id{rank});
  };
  REQUIRE(std::vector{first(0, 0), first(1, 0), first(2, 0)} == std::vector{0, 1, 1});
  REQUIRE(std::vector{first(0, 1), first(1, 1), first(2, 1)} == std::vector{0, 0, 2});
  REQUIRE(std::vector{first(0, 2), first(1, 2), first(2, 2)} == std::vector{0, 1, 1});
  REQUIRE(stack.slots(rank_id{0}) == 2);
  REQUIRE(stack.slots(rank_id{1}) == 3);
  REQUIRE(stack.slots(rank_id{2}) == 1);
  REQUIRE(stack.slot(expert_id{4}) == 2);
  REQUIRE(stack.slot(expert_id{5}) == 1);
}

TEST_CASE("a stack of one layer is that layer") {
  auto const layer = table(2, {1, 0, 1, 1}, 2);
  auto const stack = layer_stack<>{{layer}};
  for (auto const chunk : fssdp::all_chunks(layer)) {
    REQUIRE(stack.owner(chunk) == layer.owner(chunk));
    REQUIRE(stack.slot(chunk) == layer.slot(chunk));
  }
}

TEST_CASE("a layer's shard is its part of the arena, tensor by tensor") {
  for (int slices = 1; slices <= 3; ++slices) {
    auto const make = [&](int seed) {  // other owners, but equal sizes
      auto owners = support::random_owners(4 * slices + seed, 4);
      owners.resize(static_cast<std::size_t>(4 * slices));
      return table_layout{{.ranks = 4, .slices = slices}, owners};
    };
    auto const stack = layer_stack<>{{make(0), make(1), make(2)}};
    auto const sizes = std::array<std::size_t, 2>{7, 2};
    for (auto const rank : fssdp::first_n<rank_id>(4)) {
      auto arena = fssdp::make_shard<float>(stack, rank, sizes);
      REQUIRE(arena.slots() == stack.slots(rank));
      auto seen = std::size_t{0};
      for (auto const layer : fssdp::first_n<layer_id>(3)) {
        CAPTURE(slices, rank.value(), layer.value());
        auto const shard = layer_shard(stack, layer, rank, arena);
        REQUIRE(shard.size() == 2);
        auto const& of = stack.layer(layer);
        for (std::size_t k = 0; k < 2; ++k) {
          auto const& whole = arena.tensors()[k];
          REQUIRE(shard[k].slots == of.owned(rank).size());
          REQUIRE(shard[k].elements == fssdp::slice_elements(sizes[k], slices));
          for (auto const chunk : of.owned(rank)) {
            auto const in_stack = fssdp::chunk_id{
                expert_id{layer.value() * stack.experts_per_layer() + chunk.expert.value()},
                chunk.slice};
            auto const* const here = shard[k][static_cast<std::size_t>(of.slot(chunk))].data();
            REQUIRE(here == whole[static_cast<std::size_t>(stack.slot(in_stack))].data());
          }
        }
        seen += shard[0].slots;
      }
      REQUIRE(seen == arena.slots());
    }
  }
}

TEST_CASE("a layer's shard can be written through, or only read") {
  auto const stack = three_layers();
  auto arena = fssdp::make_shard<float>(stack, rank_id{1}, 4);
  auto const shard = layer_shard(stack, layer_id{2}, rank_id{1}, arena);
  shard[0][0][3] = 7;
  REQUIRE(arena.tensors()[0][2][3] == 7);
  auto const& readable = arena;
  auto const same = layer_shard(stack, layer_id{2}, rank_id{1}, readable);
  STATIC_REQUIRE(std::is_same_v<decltype(same[0].data), float const*>);
  REQUIRE(same[0][0][3] == 7);
  REQUIRE(layer_shard(stack, layer_id{0}, rank_id{1}, arena)[0].slots == 0);
}

TEST_CASE("a layer's shard of a type known at run time, or with a place for each slot") {
  auto const stack = three_layers();  // rank 1 has slot 2 of layer 2
  auto arena = fssdp::make_shard<float>(stack, rank_id{1}, 4);
  auto const& typed = arena.tensors()[0];
  auto places = std::vector<float*>{};
  for (std::size_t slot = 0; slot < typed.slots; ++slot) places.push_back(typed[slot].data());
  auto const expected = layer_shard(stack, layer_id{2}, rank_id{1}, arena);
  REQUIRE(expected[0].slots > 0);

  auto any = fssdp::any_tensor_of(typed);
  auto const untyped = layer_shard(stack, layer_id{2}, rank_id{1}, any);
  REQUIRE(untyped[0].type == fssdp::dtype::fp32);
  REQUIRE(untyped[0].slots == expected[0].slots);
  REQUIRE(untyped[0].data == expected[0].data);

  auto scattered =
      fssdp::expert_tensor<float>{.slots = places.size(), .elements = 4, .places = places.data()};
  auto any_scattered = fssdp::any_tensor_of(scattered);
  auto const one_by_one = layer_shard(stack, layer_id{2}, rank_id{1}, scattered);
  auto const any_one_by_one = layer_shard(stack, layer_id{2}, rank_id{1}, any_scattered);
  for (std::size_t slot = 0; slot < expected[0].slots; ++slot) {
    REQUIRE(one_by_one[0][slot].data() == expected[0][slot].data());
    REQUIRE(any_one_by_one[0].places[slot] == expected[0][slot].data());
  }
  any.type = static_cast<fssdp::dtype>(7);
  REQUIRE_THROWS_WITH(layer_shard(stack, layer_id{2}, rank_id{1}, any), mentions("dtype 7"));
}

TEST_CASE("an arena may be larger than the stack needs, but not smaller") {
  auto const stack = three_layers();
  auto const sizes = std::array<std::size_t, 1>{4};
  auto arena = fssdp::expert_buffer<float>{5, sizes};
  REQUIRE(layer_shard(stack, layer_id{1}, rank_id{1}, arena)[0].slots == 2);
  arena.resize(2);
  for (auto const layer : fssdp::first_n<layer_id>(3)) {
    REQUIRE_THROWS_AS(layer_shard(stack, layer, rank_id{1}, arena), fssdp::argument_error);
    REQUIRE_THROWS_WITH(layer_shard(stack, layer, rank_id{1}, arena),
                        mentions("2 slots") && mentions("expected 3 or more on rank 1"));
  }
  REQUIRE_NOTHROW(layer_shard(stack, layer_id{2}, rank_id{0}, arena));
}

TEST_CASE("layers that do not fit together are refused") {
  auto const refused = [](std::vector<table_layout> const& layers, auto const& named) {
    REQUIRE_THROWS_AS(layer_stack<>{layers}, fssdp::argument_error);
    REQUIRE_THROWS_WITH(layer_stack<>{layers}, mentions("layer_stack"));
    REQUIRE_THROWS_WITH(layer_stack<>{layers}, named);
  };
  auto const first = table(3, {0, 1, 2, 0});
  refused({}, mentions("0 layers") && mentions("1 or more"));
  refused({first, first, table(3, {0, 1})},
          mentions("2 experts") && mentions("expected 4, 1 and 3"));
  refused({first, table(3, {0, 1, 2, 0, 1, 2, 0, 1}, 2)}, mentions("4 experts in 2 slices"));
  refused({first, table(4, {0, 1, 2, 0})}, mentions("4 ranks") && mentions("expected 4, 1 and 3"));

  auto const large = block_layout{{.experts = 1 << 20, .ranks = 1, .slices = 1 << 10}};
  REQUIRE_NOTHROW(layer_stack{std::vector{large}});
  REQUIRE_THROWS_WITH(layer_stack{std::vector(2, large)}, mentions("2 layers of 1048576 experts"));
}
