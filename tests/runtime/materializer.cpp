// SPDX-License-Identifier: Apache-2.0
/// The iteration: whatever overlaps and whatever is dropped, the bits are the same, and the memory
/// suffices.
#include "fssdp/runtime/materializer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::layer_id;
using fssdp::materializer;
using fssdp::materializer_options;
using fssdp::rank_id;
using fssdp::retention;
using fssdp::thread_communicator;
using fssdp::training_pass;
using support::go_through;
using support::make_layers;
using support::overlap;
using support::three_replicas;
using support::toy_model;
using support::toy_shape;

namespace {

struct outcome {
  std::vector<float> parameters;
  std::vector<fssdp::iteration_metrics> metrics;  // [iteration]
};

/// Trains for some iterations: [rank].
[[nodiscard]] std::vector<outcome> train(toy_shape const& shape, overlap how,
                                         materializer_options const& options, int iterations = 6,
                                         int micro_batches = 1) {
  return support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto result = outcome{};
    support::run_on_stream(comm, how, [&](auto& streamed) {
      auto layers = make_layers(streamed, model, options);
      for (int i = 0; i < iterations; ++i)
        result.metrics.push_back(train_once(model, layers, i, micro_batches));
    });
    result.parameters = model.parameters();
    return result;
  });
}

[[nodiscard]] bool same_parameters(std::vector<outcome> const& a, std::vector<outcome> const& b) {
  return std::ranges::equal(a, b, {}, &outcome::parameters, &outcome::parameters);
}

/// The same by the collectives alone: everything gathered, then everything reduced.
[[nodiscard]] std::vector<outcome> train_by_verbs(toy_shape const& shape, int iterations) {
  return support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto const rank = comm.rank();
    auto windows =
        std::vector(static_cast<std::size_t>(shape.layers), fssdp::load_window{shape.experts});
    for (int i = 0; i < iterations; ++i) {
      for (auto const l : fssdp::first_n<layer_id>(shape.layers)) {
        auto const& layout = model.layouts().layer(l);
        auto const where = three_replicas()(windows[l.index()].predict(), layout);
        auto const plan = fssdp::make_plan(layout, where);
        auto const weights = fssdp::layer_shard(model.layouts(), l, rank, model.weights());
        auto const gradients = fssdp::layer_shard(model.layouts(), l, rank, model.gradients());
        auto replicas = fssdp::make_replicas<float>(plan, rank, shape.elements);
        auto partials = fssdp::make_partials<float>(plan, rank, shape.elements);
        fssdp::sparse_all_gather(comm, plan, weights, replicas);
        model.backward(fssdp::view_experts(plan, rank, weights, replicas), partials.tensors(), 0);
        fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
        windows[l.index()].push(model.loads(l, i));
      }
      model.update();
    }
    return outcome{model.parameters(), {}};
  });
}

}  // namespace

TEST_CASE("overlap, re-materialization and prefetching change no bit") {
  for (int slices : {1, 4}) {
    auto const shape = toy_shape{.slices = slices};
    auto const by_verbs = train_by_verbs(shape, 6);
    for (auto const how : {overlap::off, overlap::on})
      for (auto const replicas : {retention::keep, retention::rematerialize})
        for (int ahead = 0; ahead <= 3; ++ahead) {
          CAPTURE(slices, how == overlap::on, replicas == retention::keep, ahead);
          auto const trained = train(shape, how,
                                     {.replicas = replicas,
                                      .prefetch_distance = ahead,
                                      .replica_slots = 40,
                                      .partial_slots = 40});
          REQUIRE(same_parameters(trained, by_verbs));
          REQUIRE(trained[0].metrics[5].placements_shrunk == 0);
          REQUIRE(trained[0].metrics[5].gathers == (replicas == retention::keep ? 3U : 6U));
        }
  }
}

TEST_CASE("the largest prefetch distance means all layers") {
  auto const by_verbs = train_by_verbs({}, 2);
  auto const most = std::numeric_limits<int>::max();
  for (auto const replicas : {retention::keep, retention::rematerialize}) {
    auto const trained = train(
        {}, overlap::off,
        {.replicas = replicas, .prefetch_distance = most, .replica_slots = 40, .partial_slots = 40},
        2);
    REQUIRE(same_parameters(trained, by_verbs));
    REQUIRE(trained[0].metrics[1].gathers == (replicas == retention::keep ? 3U : 6U));
  }
}

TEST_CASE(
    "replicas of another type take slots for all materialized experts, equally on all ranks") {
  auto const wrong = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto layers = materializer{
        comm,
        fssdp::expert_shards{model.layouts(), model.shape().elements, model.weights(),
                             model.gradients()},
        {.placement = three_replicas()},
        {.replica_slots = 15, .replica_type = fssdp::dtype::bf16, .partial_slots = 10}};
    auto errors = 0;
    for (auto const l : fssdp::first_n<layer_id>(3)) {
      layers.acquire(l);
      auto const experts = layers.experts<fssdp::bf16>(l);
      for (std::size_t i = 0; i < experts.size(); ++i) {
        auto const expert = experts[i].id;
        auto const& plan = layers.plan(l);
        if (plan.owner(expert) != comm.rank()) continue;
        auto const own = fssdp::layer_shard(model.layouts(), l, comm.rank(), model.weights());
        auto const slot = static_cast<std::size_t>(plan.owner_slot(expert));
        for (std::size_t j = 0; j < own[0].elements; ++j)
          errors += static_cast<float>(experts[i].tensors[0][j]) ==
                            static_cast<float>(fssdp::bf16{own[0][slot][j]})
                        ? 0
                        : 1;
      }
      layers.release(l);
    }
    layers.step();
    return errors;
  });
  REQUIRE(wrong == std::vector(4, 0));
}

TEST_CASE("the memory in use is that of the policy: one layer, those ahead, or all") {
  auto const peaks = [](retention replicas, int ahead) {
    auto const trained = train({.layers = 4}, overlap::on,
                               {.replicas = replicas,
                                .prefetch_distance = ahead,
                                .replica_slots = 40,
                                .partial_slots = 12},
                               3);
    auto most = std::pair{std::size_t{0}, std::size_t{0}};
    for (auto const& of_rank : trained)
      for (auto const& m : of_rank.metrics) {
        most.first = std::max(most.first, m.replica_slots_peak);
        most.second = std::max(most.second, m.partial_slots_peak);
      }
    return most;
  };
  constexpr auto layer = std::size_t{3};  // replicas on the rank that has most
  REQUIRE(peaks(retention::rematerialize, 0).first == layer);
  REQUIRE(peaks(retention::rematerialize, 1).first == 2 * layer);
  REQUIRE(peaks(retention::rematerialize, 2).first == 3 * layer);
  REQUIRE(peaks(retention::keep, 1).first == 4 * layer);
  REQUIRE(peaks(retention::rematerialize, 1).second <= 2 * (layer + 2));  // two more are its own
}

TEST_CASE("a pool that is too small shrinks placements and is never exceeded") {
  for (auto const how : {overlap::off, overlap::on})
    for (auto const replicas : {retention::keep, retention::rematerialize})
      for (std::size_t slots = 0; slots <= 9; ++slots) {
        CAPTURE(slots, replicas == retention::keep);
        auto const trained = train({}, how,
                                   {.replicas = replicas,
                                    .prefetch_distance = 1,
                                    .replica_slots = slots,
                                    .partial_slots = 10});
        auto shrunk = 0;
        auto put_off = 0;
        for (auto const& m : trained[0].metrics) {
          shrunk += m.placements_shrunk;
          put_off += m.prefetches_put_off;
          REQUIRE(m.replica_slots_peak <= slots);
        }
        auto const enough = replicas == retention::keep ? 9U : 3U;
        REQUIRE((shrunk > 0) == (slots < enough));
        if (replicas == retention::keep || slots >= 9) REQUIRE(put_off == 0);
        if (replicas == retention::rematerialize && slots == 3) REQUIRE(put_off > 0);
      }
}

TEST_CASE("a deferred gather runs when its layer is acquired, with the chosen placement") {
  auto const large =
      train({}, overlap::on,
            {.replicas = retention::rematerialize, .replica_slots = 40, .partial_slots = 40});
  auto const small =
      train({}, overlap::on,
            {.replicas = retention::rematerialize, .replica_slots = 3, .partial_slots = 5});
  REQUIRE(same_parameters(small, large));
  REQUIRE(small[0].metrics[3].partial_slots_peak == 5);
}

TEST_CASE("micro-batches add up, and those of two layers may interleave") {
  auto const shape = toy_shape{.layers = 2};
  auto const options = materializer_options{
      .replicas = retention::rematerialize, .replica_slots = 20, .partial_slots = 20};
  auto const in_turn = train(shape, overlap::on, options, 3, 3);
  auto const kept =
      train(shape, overlap::off,
            {.replicas = retention::keep, .replica_slots = 20, .partial_slots = 20}, 3, 3);
  REQUIRE(same_parameters(in_turn, kept));
  // one forward, one backward: the second micro-batch is in layer 0 when the first is in layer 1
  auto const interleaved = support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    auto layers = make_layers(streamed, model, options);
    auto const forward = [&](int l, int m) { layers.acquire(layer_id{l}, m); };
    auto const backward = [&](int l, int m) {
      layers.acquire(layer_id{l}, 10 + m, training_pass::backward);
      auto const experts = layers.experts<float>(layer_id{l});
      model.backward(experts, layers.partials<float>(layer_id{l}), m);
      layers.release(layer_id{l}, 10 + m);
    };
    for (int i = 0; i < 3; ++i) {
      for (auto const l : fssdp::first_n<layer_id>(2))
        for (int m = 0; m < 3; ++m) layers.record(l, model.loads(l, i));
      forward(0, 0);
      forward(1, 0);
      forward(0, 1);
      layers.release(layer_id{1}, 0);
      backward(1, 0);
      forward(1, 1);
      layers.release(layer_id{0}, 0);
      backward(0, 0);
      forward(0, 2);
      layers.release(layer_id{1}, 1);
      backward(1, 1);
      forward(1, 2);
      layers.release(layer_id{0}, 1);
      backward(0, 1);
      layers.release(layer_id{1}, 2);
      backward(1, 2);
      layers.reduce(layer_id{1});
      layers.release(layer_id{0}, 2);
      backward(0, 2);
      layers.reduce(layer_id{0});
      layers.step();
      model.update();
    }
    return outcome{model.parameters(), {}};
  });
  REQUIRE(same_parameters(interleaved, in_turn));
}

TEST_CASE("a layer that is reduced twice in an iteration adds up, too") {
  auto const shape = toy_shape{.layers = 1};
  auto const gradients_after = [&](int reductions) {
    return support::on_all_ranks(shape.ranks, [&, reductions](thread_communicator& comm) {
      auto model = toy_model{shape, comm.rank()};
      auto layers = make_layers(comm, model, {.replica_slots = 10, .partial_slots = 10});
      auto const all = layer_id{0};
      for (int turn = 0; turn < reductions; ++turn) {
        layers.acquire(all);
        auto const experts = layers.experts<float>(all);
        model.backward(experts, layers.partials<float>(all), 0);
        layers.release(all);
        layers.reduce(all);
      }
      layers.step();
      auto sum = std::vector<float>{};
      for (auto const& tensor : model.gradients().tensors())
        for (std::size_t slot = 0; slot < tensor.slots; ++slot)
          for (auto const value : tensor[slot])
            sum.push_back(value / static_cast<float>(reductions));
      return sum;
    });
  };
  REQUIRE(gradients_after(2) == gradients_after(1));
}

TEST_CASE("calibration gathers replicas that pay, and the layer uses them") {
  // layer 0 expects nothing, then expert 7 (of rank 3) turns out to be hot
  auto const counts = [] {
    auto values = std::vector<std::uint64_t>(4 * 8, 1);
    for (std::size_t rank = 0; rank < 4; ++rank) values[rank * 8 + 7] = 1000;
    return fssdp::token_counts{4, 8, values};
  }();
  for (auto const how : {overlap::off, overlap::on})
    for (auto const seconds_per_row : {0.0, 1e-3}) {
      auto const pays = seconds_per_row > 0;
      auto const seen = support::on_all_ranks(4, [&](thread_communicator& comm) {
        auto model = toy_model{{.layers = 1}, comm.rank()};
        auto result = std::tuple{std::vector<int>{}, std::vector<float>{}, 0, 0};
        auto refused_again = false;
        support::run_on_stream(comm, how, [&](auto& streamed) {
          materializer layers =
              make_layers(streamed, model,
                          {.replicas = retention::rematerialize,
                           .replica_slots = 2,
                           .partial_slots = 8,
                           .seconds_per_row = seconds_per_row},
                          fssdp::sparse_materialization{.overlap = 1, .spare_slots = 1});
          auto const all = layer_id{0};
          layers.acquire(all);
          (void)layers.calibrate(all, counts);
          auto const experts = layers.experts<float>(all);
          try {
            if (pays) (void)layers.calibrate(all, counts);  // once is all there is room to remember
          } catch (fssdp::argument_error const&) {
            refused_again = true;
          }
          for (std::size_t i = 0; i < experts.size(); ++i) {
            std::get<0>(result).push_back(experts[i].id.value());
            std::get<1>(result).push_back(experts[i].tensors[0][1]);
          }
          layers.release(all);
          layers.acquire(all, 0, training_pass::backward);
          auto const again = layers.experts<float>(all);
          for (std::size_t i = 0; i < again.size(); ++i)
            std::get<1>(result).push_back(again[i].tensors[0][1]);
          (void)layers.partials<float>(all);
          layers.release(all);
          layers.reduce(all);
          auto const metrics = layers.step();
          std::get<2>(result) = metrics.calibrations_accepted;
          std::get<3>(result) = metrics.calibrations_rejected;
        });
        if (pays != refused_again) std::get<2>(result) = -1;
        return result;
      });
      for (std::size_t rank = 0; rank < 4; ++rank) {
        auto const& [experts, values, accepted, rejected] = seen[rank];
        CAPTURE(rank, pays);
        REQUIRE(accepted == (pays ? 1 : 0));
        REQUIRE(rejected == (pays ? 0 : 1));
        auto const holds = std::ranges::count(experts, 7) == 1;
        REQUIRE(holds == (pays || rank == 3));
        REQUIRE(std::ranges::is_sorted(experts));
        for (std::size_t i = 0; i < experts.size(); ++i) {
          REQUIRE(values[i] == values[experts.size() + i]);  // the same when gathered in one go
          auto const owner = rank_id{experts[i] / 2};
          auto const original = toy_model{{.layers = 1}, owner}.parameters();
          REQUIRE(values[i] == original[static_cast<std::size_t>(experts[i] % 2) * 300 + 1]);
        }
      }
    }
}

namespace {

/// Expert 7 is on ranks 2 and 3, which share a node, until loads are known; then everywhere.
struct other_node_later {
  template <class Layout>
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            Layout const& layout) const {
    auto where = fssdp::placement{layout};
    where.add(fssdp::expert_id{7}, rank_id{2});
    if (std::ranges::count(loads, 0U) == 0)
      for (auto const rank : fssdp::first_n<rank_id>(layout.ranks()))
        where.add(fssdp::expert_id{7}, rank);
    return where;
  }
};

}  // namespace

TEST_CASE("with coded parameters all have the same bits after calibration, too") {
  auto const counts = fssdp::token_counts{4, 8, std::vector<std::uint64_t>(4 * 8, 1000)};
  auto const owned = toy_model{{.layers = 1}, rank_id{3}}.parameters();
  auto const original = std::span{owned}.subspan(300, 300);  // expert 7
  for (auto const how : {overlap::off, overlap::on})
    for (auto const on : {fssdp::link_class::between_nodes, fssdp::link_class::all})
      for (bool scheduled : {false, true}) {
        auto const seen = support::on_all_ranks(4, [&](thread_communicator& comm) {
          auto model = toy_model{{.layers = 1}, comm.rank()};
          auto values = std::vector<std::vector<float>>{};  // before, then, and gathered again
          support::run_on_stream(comm, how, [&](auto& streamed) {
            auto options =
                materializer_options{.replicas = retention::rematerialize,
                                     .replica_slots = 6,
                                     .partial_slots = 6,
                                     .seconds_per_row = 1,
                                     .topology = fssdp::topology{{.nodes = 2, .ranks = 4}}};
            if (scheduled) options.schedule = fssdp::schedule_options{.piece_bytes = 512};
            auto layers =
                materializer{streamed,
                             fssdp::expert_shards{model.layouts(), model.shape().elements,
                                                  model.weights(), model.gradients()},
                             {.placement = other_node_later{},
                              .gather_coding = fssdp::coded_links{fssdp::int8_codec{}, on}},
                             options};
            auto const look_at = [&](auto const& experts) {
              values.emplace_back();
              for (std::size_t i = 0; i < experts.size(); ++i)
                if (experts[i].id == fssdp::expert_id{7})
                  values.back().assign(experts[i].tensors[0].begin(), experts[i].tensors[0].end());
            };
            auto const all = layer_id{0};
            layers.acquire(all);
            look_at(layers.experts<float>(all));
            (void)layers.calibrate(all, counts);
            look_at(layers.experts<float>(all));
            layers.release(all);
            layers.acquire(all, 0, training_pass::backward);
            look_at(layers.experts<float>(all));
            layers.release(all);
            layers.step();
          });
          return values;
        });
        CAPTURE(how == overlap::on, on == fssdp::link_class::all, scheduled);
        auto const& first = seen[3];
        REQUIRE(first[0].size() == 300);
        REQUIRE(std::ranges::equal(first[0], original) == (on != fssdp::link_class::all));
        REQUIRE_FALSE(std::ranges::equal(first[1], original));  // decoded
        for (std::size_t rank = 0; rank < 4; ++rank) {
          CAPTURE(rank);
          REQUIRE(seen[rank][0] == (rank < 2 ? std::vector<float>{} : first[0]));
          REQUIRE(seen[rank][1] == first[1]);
          REQUIRE(seen[rank][2] == first[1]);
        }
      }
}

TEST_CASE("new owners continue with the state of the old ones") {
  auto const shape = toy_shape{};
  auto const wrong = support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto owners = std::vector<rank_id>{};
    for (int e = 0; e < shape.experts; ++e) owners.emplace_back(3 - e / 2);
    auto const reversed = toy_model::layouts_type{
        std::vector(3, fssdp::table_layout{{.ranks = shape.ranks}, std::move(owners)})};
    auto layers =
        make_layers(comm, model, {.replica_slots = 18, .partial_slots = 8, .reshard_every = 2},
                    fssdp::everywhere{});
    auto errors = 0;
    for (int i = 0; i < 5; ++i) {
      errors += layers.is_reshard_due() == (i == 2 || i == 4) ? 0 : 1;
      if (layers.is_reshard_due())
        layers.reshard(i == 2 ? reversed : model.layouts(), fssdp::bytes_of(model.weights()));
      for (auto const layer : fssdp::first_n<layer_id>(3)) {
        layers.acquire(layer);
        auto const experts = layers.experts<float>(layer);
        errors += layers.plan(layer).owner(fssdp::expert_id{0}) == rank_id{i == 2 || i == 3 ? 3 : 0}
                      ? 0
                      : 1;
        for (std::size_t e = 0; e < experts.size(); ++e) {
          auto const first = toy_model{shape, rank_id{static_cast<int>(e) / 2}}.parameters();
          auto const slot = 2 * layer.index() + e % 2;
          errors += experts[e].tensors[0][7] == first[slot * 300 + 7] ? 0 : 1;
        }
        layers.release(layer);
      }
      layers.step();
    }
    return errors;
  });
  REQUIRE(wrong == std::vector(shape.ranks, 0));
}

TEST_CASE("an iteration around the optimizer deals the experts out again when that is due") {
  auto const shape = toy_shape{};
  auto const trained = [&](bool by_hand) {
    return support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
      auto model = toy_model{shape, comm.rank()};
      auto const sharding = fssdp::heterogeneous_sharding{.overlap = 1};
      auto layers =
          make_layers(comm, model, {.replica_slots = 18, .partial_slots = 8, .reshard_every = 2},
                      three_replicas(), sharding);
      auto owners = std::vector<int>{};
      for (int i = 0; i < 5; ++i) {
        go_through(model, layers, i);
        if (by_hand) {
          layers.step();
          model.update();
          auto loads = std::vector<fssdp::expert_loads>{};
          for (auto const l : fssdp::first_n<layer_id>(3))
            loads.push_back(layers.expected_loads(l));
          auto const topo = fssdp::topology{{.nodes = 1, .ranks = shape.ranks}};
          auto const next = toy_model::layouts_type{sharding(loads, topo)};
          if (i % 2 == 1) layers.reshard(next, fssdp::bytes_of(model.weights()));
        } else {
          layers.step([&](fssdp::iteration_metrics const&) { model.update(); },
                      fssdp::bytes_of(model.weights()));
        }
        for (auto const l : fssdp::first_n<layer_id>(3))
          for (auto const e : fssdp::first_n<fssdp::expert_id>(shape.experts))
            owners.push_back(layers.layouts().layer(l).owner(e).value());
      }
      return std::pair{owners, model.parameters()};
    });
  };
  auto const changed = trained(false);
  REQUIRE(changed == trained(true));
  auto const& owners = changed[0].first;
  auto const per_step = owners.size() / 5;
  auto const of_step = [&](std::size_t step) {
    return std::vector(owners.begin() + static_cast<std::ptrdiff_t>(step * per_step),
                       owners.begin() + static_cast<std::ptrdiff_t>((step + 1) * per_step));
  };
  REQUIRE(of_step(1) != of_step(0));
  REQUIRE(of_step(2) == of_step(1));
}

TEST_CASE("owners change only if that pays, where the solver weighs it") {
  auto const shape = toy_shape{};
  auto const moved = [&](double seconds_per_row) {
    return support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
      auto model = toy_model{shape, comm.rank()};
      auto const weigh = fssdp::resharding<>{
          .seconds_per_row = seconds_per_row, .chunk_bytes = 307 * sizeof(float), .iterations = 2};
      auto layers =
          make_layers(comm, model, {.replica_slots = 18, .partial_slots = 8, .reshard_every = 2},
                      three_replicas(), weigh);
      auto counts = std::array{0, 0};
      for (int i = 0; i < 4; ++i) {
        go_through(model, layers, i);
        auto const metrics = layers.step([&](fssdp::iteration_metrics const&) { model.update(); },
                                         fssdp::bytes_of(model.weights()));
        counts[0] += metrics.reshardings_accepted;
        counts[1] += metrics.reshardings_rejected;
      }
      return std::tuple{counts, layers.layouts() == model.layouts(), model.parameters()};
    });
  };
  // every second of 4 iterations it is due; the loads of all 4 are the same
  auto const stays = moved(0);
  auto const goes = moved(1);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    REQUIRE(std::get<0>(stays[rank]) == std::array{0, 2});
    REQUIRE(std::get<1>(stays[rank]));
    REQUIRE(std::get<0>(goes[rank]) == std::array{1, 1});
    REQUIRE(!std::get<1>(goes[rank]));
  }
}

TEST_CASE("loads are expected by the predictor that a materializer is given") {
  auto const shape = toy_shape{};
  auto const wrong = support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto const newest = fssdp::load_average::alpha{.numerator = 1, .denominator = 2};
    auto layers =
        materializer{comm,
                     fssdp::expert_shards{model.layouts(), model.shape().elements, model.weights(),
                                          model.gradients()},
                     {.placement = three_replicas(), .predictor = fssdp::load_average{1, newest}},
                     {.replica_slots = 18, .partial_slots = 8}};
    auto expected = fssdp::load_average{shape.experts, newest};
    auto errors = 0;
    for (int i = 0; i < 6; ++i) {
      train_once(model, layers, i);
      expected.push(model.loads(layer_id{1}, i));
      errors += layers.expected_loads(layer_id{1}) == expected.predict() ? 0 : 1;
      layers.prefetch(layer_id{1});
      auto const where = three_replicas()(expected.predict(), layers.layouts().layer(layer_id{1}));
      errors += layers.where(layer_id{1}) == where ? 0 : 1;
    }
    return errors;
  });
  REQUIRE(wrong == std::vector(shape.ranks, 0));
}

TEST_CASE("partial gradients of the caller's own are reduced to the same bits") {
  auto const shape = toy_shape{.layers = 2};
  auto const equal = support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    auto pooled = toy_model{shape, comm.rank()};
    auto own = toy_model{shape, comm.rank()};
    {
      auto layers = make_layers(streamed, pooled, {.replica_slots = 12, .partial_slots = 10});
      train_once(pooled, layers, 0);
    }
    auto layers = make_layers(streamed, own, {.replica_slots = 12});
    auto buffers = std::vector<fssdp::expert_buffer<float>>{};
    for (auto const l : {layer_id{1}, layer_id{0}}) {
      layers.acquire(l, 0, training_pass::backward);
      auto const experts = layers.experts<float>(l);
      buffers.emplace_back(experts.size(), shape.elements);
      own.backward(experts, buffers.back().tensors(), 0);
      layers.release(l);
      layers.reduce(l, buffers.back());
    }
    auto const metrics = layers.step();
    own.update();
    return std::pair{pooled.parameters() == own.parameters(), metrics.partial_slots_peak};
  });
  REQUIRE(equal == std::vector(4, std::pair{true, std::size_t{0}}));
}

TEST_CASE("placements are planned on the communicator, once as long as they stay") {
  auto recorder = fssdp::trace_recorder{{.rank = rank_id{0}}};
  (void)support::on_all_ranks(4, [&](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    auto layers = make_layers(streamed, model,
                              {.replica_slots = 18,
                               .partial_slots = 10,
                               .trace = comm.rank() == rank_id{0} ? &recorder : nullptr});
    for (int i = 0; i < 3; ++i) train_once(model, layers, 0);
    return 0;
  });
  auto plans = 0;
  for (auto const& event : recorder.events())
    plans += event.work.track == fssdp::gather_track && event.work.name.view() == "plan" ? 1 : 0;
  REQUIRE(plans == 2 * 3);  // of the loads that nobody knew, then of those that stay
}
