// SPDX-License-Identifier: Apache-2.0
/// A materializer that is used in another order than its own says so, and one whose rank fails lets
/// the others go.
#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::layer_id;
using fssdp::materializer_options;
using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::training_pass;
using support::make_layers;
using support::toy_model;

namespace {

/// What a single rank is told when it calls `use(layers)`.
template <class Use>
[[nodiscard]] std::string complaint(Use use, materializer_options const& options = {
                                                 .replica_slots = 9, .partial_slots = 20}) {
  auto text = std::string{};
  fssdp::thread_world{1}.run([&](thread_communicator& comm) {
    auto model = toy_model{{.ranks = 1}, comm.rank()};
    try {
      auto layers = make_layers(comm, model, options);
      use(layers);
    } catch (fssdp::argument_error const& error) {
      text = error.what();
    }
  });
  return text;
}

}  // namespace

TEST_CASE("calls in the wrong order are refused by name") {
  auto const first = layer_id{0};
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { layers.acquire(layer_id{3}); }),
               mentions("layer 3") && mentions("0 to 2"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { layers.prefetch(layer_id{-1}); }),
               mentions("layer -1"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) {
                 layers.acquire(first, 4);
                 layers.acquire(first, 4);
               }),
               mentions("micro-batch 4") && mentions("layer 0 again"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { layers.release(first, 2); }),
               mentions("micro-batch 2") && mentions("has not acquired"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { (void)layers.partials<float>(first); }),
               mentions("layer 0 has no placement yet") && mentions("acquire before"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { layers.reduce(first); }),
               mentions("layer 0 has no placement yet"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { (void)layers.where(first); }),
               mentions("no placement yet"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) { (void)layers.plan(first); }),
               mentions("no placement yet"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) {
                 layers.acquire(first);
                 layers.step();
               }),
               mentions("step while 1") && mentions("layer 0"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) {
                 layers.acquire(first);
                 (void)layers.partials<float>(first);
                 layers.release(first);
                 layers.step();
               }),
               mentions("layer 0 has partial gradients") && mentions("expected reduce"));
  REQUIRE_THAT(
      complaint([&](fssdp::materializer& layers) {
        layers.acquire(first);
        (void)layers.partials<float>(first);
        layers.release(first);
        layers.reduce(first, fssdp::expert_buffer<float>{8, std::vector<std::size_t>{300, 7}});
      }),
      mentions("layer 0 has partial gradients") && mentions("expected reduce"));
  REQUIRE_THAT(
      complaint([&](fssdp::materializer& layers) { layers.record(first, fssdp::expert_loads(3)); }),
      mentions("layer 0 has 3 loads") && mentions("expected 8"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) {
                 layers.acquire(first);
                 layers.release(first);
                 layers.acquire(first, 1);
                 layers.calibrate(first, fssdp::token_counts{1, 8, fssdp::expert_loads(8)});
               }),
               mentions("calibrated") && mentions("the first of the iteration"));
}

TEST_CASE("options and memory that do not fit are refused by name") {
  auto const nothing = [](fssdp::materializer&) {};
  REQUIRE_THAT(complaint(nothing, {.prefetch_distance = -1}), mentions("prefetch_distance is -1"));
  REQUIRE_THAT(complaint(nothing, {.reshard_every = -2}), mentions("-2"));
  REQUIRE_THAT(complaint(nothing, {.topology = fssdp::topology{{.nodes = 2, .ranks = 2}}}),
               mentions("2 ranks"));
  REQUIRE_THAT(complaint(
                   [](fssdp::materializer& layers) {
                     layers.acquire(layer_id{1});
                     (void)layers.partials<float>(layer_id{1});
                   },
                   {.replica_slots = 9, .partial_slots = 7}),
               mentions("layer 1 need 8") && mentions("has 7 free"));
}

TEST_CASE("own experts that take slots need room, which the materializer says when it is made") {
  auto const nothing = [](fssdp::materializer&) {};
  REQUIRE_THAT(complaint(nothing, {.replica_slots = 7, .in_one_piece = true, .partial_slots = 20}),
               mentions("replica_slots is 7; expected at least 8: the own experts of layer 0"));
  REQUIRE_THAT(
      complaint(nothing,
                {.replica_slots = 7, .replica_type = fssdp::dtype::bf16, .partial_slots = 20}),
      mentions("expected at least 8"));
  REQUIRE(
      complaint(nothing, {.replica_slots = 8, .in_one_piece = true, .partial_slots = 20}).empty());
}

TEST_CASE("placements of a solver that are not of the layer are refused") {
  auto const told = [](fssdp::any_placement_solver const& solver, bool ahead) {
    auto text = std::string{};
    fssdp::thread_world{1}.run([&](thread_communicator& comm) {
      auto model = toy_model{{.ranks = 1}, comm.rank()};
      try {
        auto layers = make_layers(
            comm, model, {.replica_slots = 9, .partial_slots = 20, .plan_ahead = ahead}, solver);
        layers.acquire(layer_id{0});
      } catch (fssdp::argument_error const& error) {
        text = error.what();
      }
    });
    return text;
  };
  auto const ahead = GENERATE(false, true);
  auto const of = [](int experts, int ranks) {
    return [=](std::span<std::uint64_t const>, auto const&) {
      return fssdp::placement{fssdp::block_layout{{.experts = experts, .ranks = ranks}}};
    };
  };
  REQUIRE_THAT(told(of(9, 1), ahead), mentions("placement has 9 experts; the layout has 8"));
  REQUIRE_THAT(told(of(8, 2), ahead), mentions("placement has 2 ranks; the layout has 1"));
  REQUIRE_THAT(
      told([](std::span<std::uint64_t const>, auto const&) { return fssdp::placement{}; }, ahead),
      mentions("the layout has 8"));
}

TEST_CASE("arenas that do not fit are refused by name, before pools are allocated") {
  using sizes = std::vector<std::size_t>;
  struct arena {
    std::size_t slots;
    sizes elements;
  };
  // Pools of this size cannot be had: who tries to says so.
  auto const options = materializer_options{.replica_slots = std::size_t{1} << 62U};
  auto const refusal = [&](arena const& w, arena const& g, int slices) {
    auto text = std::string{};
    fssdp::thread_world{1}.run([&](thread_communicator& comm) {
      auto const model = toy_model{{.ranks = 1, .slices = slices}, comm.rank()};
      auto weights = fssdp::expert_buffer<float>{w.slots, w.elements};
      auto gradients = fssdp::expert_buffer<float>{g.slots, g.elements};
      try {
        auto const layers = fssdp::materializer{
            comm,
            fssdp::expert_shards{model.layouts(), model.shape().elements, weights, gradients},
            {},
            options};
      } catch (fssdp::argument_error const& error) {
        text = error.what();
      }
    });
    return text;
  };
  auto const whole = arena{24, {300, 7}};
  REQUIRE_THAT(refusal(whole, whole, 1), mentions("memory for"));  // of the pool
  REQUIRE_THAT(refusal({24, {300}}, whole, 1),
               mentions("weights has 1 tensors") && mentions("expected 2"));
  REQUIRE_THAT(refusal(whole, {24, {300, 7, 1}}, 1),
               mentions("gradients has 3 tensors") && mentions("expected 2"));
  REQUIRE_THAT(refusal({24, {300, 8}}, whole, 1),
               mentions("tensor 1 of weights has 8 elements") && mentions("expected 7"));
  REQUIRE_THAT(refusal(whole, {24, {299, 7}}, 1),
               mentions("tensor 0 of gradients has 299 elements") && mentions("expected 300"));
  REQUIRE_THAT(refusal({23, {300, 7}}, whole, 1),
               mentions("weights has 23 slots") && mentions("expected 24 or more"));
  REQUIRE_THAT(refusal(whole, {23, {300, 7}}, 1),
               mentions("gradients has 23 slots") && mentions("expected 24 or more"));
  auto const halves = arena{48, {150, 4}};
  REQUIRE_THAT(refusal(halves, halves, 2), mentions("memory for"));
  REQUIRE_THAT(refusal(halves, {48, {300, 7}}, 2),
               mentions("gradients has 300 elements") && mentions("expected 150 (an even slice)"));
  REQUIRE_THAT(refusal({24, {150, 4}}, halves, 2), mentions("expected 48 or more"));
}

TEST_CASE("partial gradients of the caller's own that do not fit are refused by name") {
  auto const first = layer_id{0};
  using sizes = std::vector<std::size_t>;
  auto const reduces = [&](std::size_t slots, sizes const& elements) {
    return complaint([&](fssdp::materializer& layers) {
      auto const own = fssdp::expert_buffer<float>{slots, elements};
      layers.acquire(first);
      layers.release(first);
      layers.reduce(first, own);
    });
  };
  REQUIRE_THAT(reduces(8, {300}), mentions("1 tensors") && mentions("expected 2"));
  REQUIRE_THAT(reduces(8, {300, 8}), mentions("tensor 1") && mentions("8 elements; expected 7"));
  REQUIRE_THAT(reduces(7, {300, 7}), mentions("7 slots; expected 8"));
  REQUIRE_THAT(complaint([&](fssdp::materializer& layers) {
                 layers.reduce(first, fssdp::expert_buffer<float>{8, sizes{300, 7}});
               }),
               mentions("layer 0 has no placement yet") && mentions("acquire before"));
}

TEST_CASE("owners that have no room for gradients are refused before anything moves") {
  auto owned = std::vector<float>(4);
  auto world = fssdp::thread_world{4};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto weights = fssdp::expert_buffer<float>{24, model.shape().elements};
    auto& first = weights.tensors()[0][0][0];
    first = static_cast<float>(comm.rank().value());
    auto layers = fssdp::materializer{
        comm,
        fssdp::expert_shards{model.layouts(), model.shape().elements, weights, model.gradients()}};
    auto const all_at_0 = fssdp::table_layout{{.ranks = 4}, std::vector(8, rank_id{0})};
    try {
      layers.reshard(toy_model::layouts_type{std::vector(3, all_at_0)}, fssdp::bytes_of(weights));
    } catch (...) {
      owned[comm.rank().index()] = first;
      throw;
    }
  });
  REQUIRE_THAT(support::text(result.of_rank[0]),
               mentions("an arena of rank 0 has 6 slots; expected 24"));
  for (std::size_t rank = 1; rank < 4; ++rank)
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 0);
  REQUIRE(owned == std::vector{0.F, 1.F, 2.F, 3.F});
}

TEST_CASE("a layer whose gather has failed throws on every acquire") {
  for (auto const how : {support::overlap::off, support::overlap::on}) {
    auto refused = 0;
    auto world = fssdp::thread_world{2};
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      if (comm.rank() == rank_id{1}) throw std::runtime_error{"rank 1 is tired"};
      support::run_on_stream(comm, how, [&](auto& streamed) {
        auto model = toy_model{{.ranks = 2}, comm.rank()};
        auto layers = make_layers(streamed, model, {.replica_slots = 20}, fssdp::everywhere{});
        for (int turn = 0; turn < 3; ++turn) try {
            layers.acquire(layer_id{0});
          } catch (fssdp::error const&) {
            ++refused;
          }
      });
    });
    CAPTURE(how == support::overlap::on);
    REQUIRE(support::is<std::runtime_error>(result.of_rank[1]));
    REQUIRE(refused == 3);
  }
}

TEST_CASE("a rank that fails anywhere in an iteration is named by all others, which end") {
  constexpr auto ranks = 3;
  for (int where = 0; where < 6; ++where) {
    CAPTURE(where);
    auto world = fssdp::thread_world{ranks};
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      auto model = toy_model{{.experts = 9, .ranks = ranks}, comm.rank()};
      auto duplicate = comm.duplicate();
      auto stream = fssdp::host_stream{};
      auto streamed = fssdp::on_stream(duplicate, stream);
      auto layers = make_layers(
          streamed, model,
          {.replicas = fssdp::retention::rematerialize, .replica_slots = 20, .partial_slots = 20});
      auto const fail_at = [&](int here) {
        if (here == where && comm.rank() == rank_id{1}) throw std::runtime_error{"rank 1 is tired"};
      };
      for (int i = 0; i < 3; ++i) {
        fail_at(i == 1 ? 0 : -1);
        train_once(model, layers, i);
        fail_at(i == 1 ? 1 : -1);
        for (auto const l : fssdp::first_n<layer_id>(3)) {
          layers.acquire(l);
          fail_at(i == 1 ? 2 + l.value() : -1);
          layers.release(l);
        }
        layers.step();
        fail_at(i == 1 ? 5 : -1);
      }
    });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank, support::text(result.of_rank[rank]));
      if (rank == 1)
        REQUIRE(support::is<std::runtime_error>(result.of_rank[rank]));
      else
        REQUIRE(support::failed_rank(result.of_rank[rank]) == 1);
    }
  }
}
