// SPDX-License-Identifier: Apache-2.0
/// One view over owned experts and replicas of a rank.
#include "fssdp/collective/materialized_experts.hpp"

#include <array>

#include "catch.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/laws.hpp"

using fssdp::expert_id;
using fssdp::rank_id;
using support::random_instance;

namespace {

/// Puts a number that names (expert, tensor) into every element of a list of experts.
template <class Experts>
void name_elements(fssdp::expert_buffer<int>& buffer, Experts const& experts) {
  for (std::size_t k = 0; k < buffer.tensors().size(); ++k) {
    auto slot = std::size_t{0};
    for (fssdp::chunk_id const chunk : experts)
      for (auto& value : buffer.tensors()[k][slot++])
        value = chunk.expert.value() * 10 + static_cast<int>(k);
  }
}

}  // namespace

TEST_CASE("materialized experts are listed ascending, and owned ones are used in place") {
  support::for_random_instances([](random_instance const& of) {
    auto wrong = 0;
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
      auto weights = fssdp::make_shard<int>(of.layout, rank, of.elements);
      auto replicas = fssdp::make_replicas<int>(of.plan, rank, of.elements);
      name_elements(weights, of.layout.owned(rank));
      name_elements(replicas, of.plan.remote(rank));
      auto const held = fssdp::view_experts(of.plan, rank, weights, replicas);
      wrong += held.size() != of.plan.materialized(rank).size() ? 1 : 0;
      for (std::size_t i = 0; i < held.size(); ++i) {
        wrong += held[i].id != of.plan.materialized(rank)[i] ? 1 : 0;
        wrong += held[i].tensors.size() != of.elements.size() ? 1 : 0;
        for (std::size_t k = 0; k < of.elements.size(); ++k) {
          wrong += held[i].tensors[k].size() != of.elements[k] ? 1 : 0;
          auto const tensor = held[i].tensors[k];
          for (auto const value : tensor)
            wrong += value != held[i].id.value() * 10 + static_cast<int>(k) ? 1 : 0;
        }
        if (of.layout.slices() == 1 &&
            of.layout.owner(held[i].id) == rank) {  // in place: the shard's own memory
          auto const slot = static_cast<std::size_t>(of.layout.slot(held[i].id));
          wrong += held[i].tensors[0].data() != weights.tensors()[0][slot].data() ? 1 : 0;
        }
      }
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("replicas are [remote, elements], partials [materialized, elements], zeroed") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto where = fssdp::placement{layout};
  where.add(expert_id{3}, rank_id{0});
  auto const plan = fssdp::make_plan(layout, where);
  auto const sizes = std::array<std::size_t, 2>{3, 5};
  auto const replicas = fssdp::make_replicas<float>(plan, rank_id{0}, sizes);
  REQUIRE(replicas.slots() == 1);
  REQUIRE(replicas.tensors()[1].elements == 5);
  auto const partials = fssdp::make_partials<float>(plan, rank_id{0}, sizes);
  REQUIRE(partials.slots() == 3);
  REQUIRE(partials.tensors()[0].elements == 3);
  REQUIRE(partials.tensors()[0][2][2] == 0.0F);
  REQUIRE(fssdp::make_replicas<float>(plan, rank_id{1}, 7).slots() == 0);
  REQUIRE(fssdp::make_partials<float>(plan, rank_id{1}, 7).slots() == 2);
}

TEST_CASE("view_experts refuses buffers of another shape") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto where = fssdp::placement{layout};
  where.add(expert_id{3}, rank_id{0});
  auto const plan = fssdp::make_plan(layout, where);
  auto const me = rank_id{0};
  auto const two = std::array<std::size_t, 2>{3, 5};
  auto const good = fssdp::make_shard<float>(layout, me, 3);
  auto const refuses = [&](auto const& weights, auto const& replicas, char const* a,
                           char const* b) {
    REQUIRE_THROWS_AS(fssdp::view_experts(plan, me, weights, replicas), fssdp::argument_error);
    REQUIRE_THROWS_WITH(fssdp::view_experts(plan, me, weights, replicas),
                        mentions(a) && mentions(b));
  };
  REQUIRE_NOTHROW(fssdp::view_experts(plan, me, good, fssdp::make_replicas<float>(plan, me, 3)));
  refuses(good, fssdp::make_replicas<float>(plan, me, two), "weights have 1", "replicas 2");
  refuses(fssdp::make_partials<float>(plan, me, 3), fssdp::make_replicas<float>(plan, me, 3),
          "weights have 3 slots", "expected 2");
  refuses(good, fssdp::make_partials<float>(plan, me, 3), "replicas have 3 slots", "expected 1");
  refuses(good, fssdp::make_replicas<float>(plan, me, 4), "4 elements in replicas", "3 in weights");
}

TEST_CASE("buffers of a rank that the plan does not have are refused") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::placement{layout});
  auto const none = rank_id{2};  // as of the world, where the plan is one of a group
  REQUIRE_THROWS_WITH(fssdp::make_shard<float>(plan, none, 3), mentions("make_shard: rank 2"));
  REQUIRE_THROWS_WITH(fssdp::make_replicas<float>(plan, none, 3),
                      mentions("make_replicas: rank 2; expected 0 to 1"));
  REQUIRE_THROWS_WITH(fssdp::make_partials<float>(plan, none, 3),
                      mentions("make_partials: rank 2"));
  auto const shard = fssdp::make_shard<float>(layout, rank_id{0}, 3);
  auto const replicas = fssdp::make_replicas<float>(plan, rank_id{0}, 3);
  REQUIRE_THROWS_WITH(fssdp::view_experts(plan, none, shard, replicas),
                      mentions("view_experts: rank 2"));
}

TEST_CASE("a shard of a plan whose experts differ in size has their rows") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::placement{layout}).with_rows({3, 0, 5, 1});
  auto const shard = fssdp::make_shard<float>(plan, rank_id{1}, 7);  // elements of a row
  REQUIRE(shard.slots() == 2);
  REQUIRE(shard.tensors()[0][0].size() == 35);
  REQUIRE(shard.tensors()[0][1].size() == 7);
}
