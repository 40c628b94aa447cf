// SPDX-License-Identifier: Apache-2.0
/// The states of a layer change as the picture in the folder's README says, and nothing else.
#include "fssdp/runtime/layer_state.hpp"

#include "catch.hpp"

using fssdp::gradient_state;
using fssdp::placement_state;
using fssdp::replica_state;
using fssdp::detail::layer_state;

TEST_CASE("a placement is chosen once, and fixed by whatever relies on it") {
  auto const after = [](auto event) {
    auto state = layer_state{fssdp::layer_id{3}};
    state.place();
    event(state);
    return state.placement();
  };
  REQUIRE(layer_state{fssdp::layer_id{3}}.placement() == placement_state::open);
  REQUIRE(after([](auto&) {}) == placement_state::chosen);
  REQUIRE(after([](auto& s) { s.begin_gather(), s.end_gather(), s.acquire(0); }) ==
          placement_state::chosen);
  REQUIRE(after([](auto& s) { s.acquire(0), s.release(0); }) == placement_state::fixed);
  REQUIRE(after([](auto& s) { s.acquire(0), s.calibrate(); }) == placement_state::fixed);
  REQUIRE(after([](auto& s) { s.collect(); }) == placement_state::fixed);
  REQUIRE(after([](auto& s) { s.begin_reduction(); }) == placement_state::fixed);
  REQUIRE(after([](auto& s) { s.acquire(0), s.release(0), s.end_iteration(); }) ==
          placement_state::open);
}

TEST_CASE("a layer is calibrated by one micro-batch, the first that has it") {
  auto state = layer_state{fssdp::layer_id{3}};
  REQUIRE_THROWS_WITH(state.require_calibratable(), mentions("layer 3") && mentions("0 micro"));
  state.place();
  REQUIRE_THROWS_AS(state.require_calibratable(), fssdp::argument_error);
  state.acquire(0);
  REQUIRE_NOTHROW(state.require_calibratable());
  state.acquire(1);
  REQUIRE_THROWS_WITH(state.require_calibratable(), mentions("2 micro-batches"));
  state.release(1);
  REQUIRE_THROWS_AS(state.require_calibratable(), fssdp::argument_error);
}

TEST_CASE("replicas are sharded, gathering, materialized, and sharded again") {
  auto state = layer_state{fssdp::layer_id{0}};
  REQUIRE(state.replicas() == replica_state::sharded);
  state.begin_gather();
  REQUIRE(state.replicas() == replica_state::gathering);
  state.end_gather();
  REQUIRE(state.replicas() == replica_state::materialized);
  state.drop_replicas();
  REQUIRE(state.replicas() == replica_state::sharded);
}

TEST_CASE("gradients are collected, reduced, and more of them added") {
  auto state = layer_state{fssdp::layer_id{0}};
  REQUIRE(state.gradients() == gradient_state::none);
  REQUIRE_FALSE(state.has_gradients());
  state.collect();
  REQUIRE(state.gradients() == gradient_state::collecting);
  REQUIRE_FALSE(state.has_gradients());
  REQUIRE_THROWS_WITH(state.require_closed(), mentions("partial gradients"));
  state.begin_reduction();
  REQUIRE(state.gradients() == gradient_state::reducing);
  REQUIRE(state.has_gradients());
  REQUIRE_NOTHROW(state.require_closed());
  state.end_reduction();
  REQUIRE(state.gradients() == gradient_state::reduced);
  state.collect();
  REQUIRE(state.gradients() == gradient_state::collecting);
  REQUIRE(state.has_gradients());  // the next reduction adds
  state.begin_reduction();
  state.end_reduction();
  state.end_iteration();
  REQUIRE(state.gradients() == gradient_state::none);
  REQUIRE_FALSE(state.has_gradients());
}

TEST_CASE("an iteration is closed when no micro-batch has the layer") {
  auto state = layer_state{fssdp::layer_id{0}};
  state.place();
  state.acquire(4);
  REQUIRE(state.in_use());
  REQUIRE_THROWS_WITH(state.require_closed(), mentions("1 micro-batches"));
  REQUIRE_THROWS_WITH(state.require_not_acquired(4), mentions("micro-batch 4"));
  REQUIRE_THROWS_WITH(state.release(5), mentions("micro-batch 5"));
  state.release(4);
  REQUIRE_NOTHROW(state.require_closed());
}
