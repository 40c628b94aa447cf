// SPDX-License-Identifier: Apache-2.0
/// A materializer over NCCL has the plans of an iteration compared before it begins.
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "nccl/devices.hpp"
#include "support/device_gate.hpp"
#include "support/trained_on_devices.hpp"

using fssdp::layer_id;
using fssdp::nccl_communicator;
using fssdp::retention;

namespace {

constexpr auto iterations = 9;

[[nodiscard]] fssdp::materializer_options options_with(retention replicas,
                                                       std::pmr::memory_resource* pools) {
  return {.replicas = replicas, .replica_slots = 40, .partial_slots = 20, .memory = pools};
}

/// What a rank has trained.
struct trained {
  std::vector<float> parameters;
  std::set<std::uint64_t> plans;  // all that it has gone by
  std::uint64_t waits = 0;
};
/// @param before_plans(comm), before_iteration(comm, layers) are called before the plans of an
///        iteration are made, and before it begins
template <class Plans, class Iteration>
[[nodiscard]] trained train_with(nccl_communicator& comm, retention replicas, Plans before_plans,
                                 Iteration before_iteration) {
  auto pinned = fssdp::cuda_pinned_memory{comm.rank()};
  auto model = support::toy_model{{}, comm.rank()};
  auto const compute = fssdp::make_cuda_stream();
  auto beside = fssdp::on_side_stream(comm, compute.get());
  auto result = trained{};
  {
    auto layers = support::make_layers(beside, model, options_with(replicas, &pinned));
    before_plans(comm);
    for (auto i = 0; i < iterations; ++i) {
      before_iteration(comm, layers);
      for (auto const layer : fssdp::first_n<layer_id>(layers.layers())) {
        layers.acquire(layer);
        layers.record(layer, model.loads(layer, i));
        result.plans.insert(layers.plan(layer).hash_value());
        layers.release(layer);
      }
      for (auto l = layers.layers(); l-- != 0;) {
        auto const layer = layer_id{l};
        layers.acquire(layer, 0, fssdp::training_pass::backward);
        auto const experts = layers.experts<float>(layer);
        auto const partials = layers.partials<float>(layer);
        cudaStreamSynchronize(compute.get());  // the host computes
        model.backward(experts, std::span{partials}, 0);
        layers.release(layer);
        layers.reduce(layer);
      }
      if (i + 1 != iterations) before_plans(comm);
      layers.step();
      cudaStreamSynchronize(compute.get());
      model.update();
    }
  }
  comm.synchronize();
  result.parameters = model.parameters();
  result.waits = comm.agreement_waits();
  return result;
}
[[nodiscard]] std::vector<std::vector<float>> trained_by_threads(retention replicas) {
  return support::on_all_ranks(4, [&](fssdp::thread_communicator& comm) {
    auto model = support::toy_model{{}, comm.rank()};
    auto layers =
        support::make_layers(comm, model, options_with(replicas, std::pmr::new_delete_resource()));
    for (auto i = 0; i < iterations; ++i) support::train_once(model, layers, i);
    return model.parameters();
  });
}

}  // namespace

TEST_CASE("the plans of an iteration are compared in one exchange, and no rank waits for it") {
  for (auto const replicas : {retention::keep, retention::rematerialize}) {
    gpu_double::reset();
    auto const before = gpu_double::all_gathers();
    auto const results = nccl_tests::results_of({.ranks = 4}, [&](nccl_communicator& comm) {
      return train_with(
          comm, replicas, [](auto&) {},
          [](auto& of, fssdp::materializer& layers) {
            cudaStreamSynchronize(of.stream());
            layers.prefetch(layer_id{0});  // where the plans of the first iteration are made
            cudaStreamSynchronize(of.stream());
          });
    });
    REQUIRE(gpu_double::all_gathers() - before == 4 * (iterations + 1));  // one more by `step`
    auto const expected = trained_by_threads(replicas);
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      REQUIRE(results[rank].plans.size() > 3);  // more than one for each layer
      REQUIRE(results[rank].waits == 0);
      REQUIRE(results[rank].parameters == expected[rank]);
    }
    REQUIRE(gpu_double::violations() == std::vector<std::string>{});
  }
}

TEST_CASE("prefetch does not wait for ranks that still compare their plans") {
  gpu_double::reset();
  auto const results = nccl_tests::results_of({.ranks = 4}, [&](nccl_communicator& comm) {
    auto gate = std::optional<support::device_gate>{};
    return train_with(
        comm, retention::keep, [&](auto& of) { gate.emplace(of.stream()); },
        [&](auto& of, fssdp::materializer& layers) {
          for (auto const layer : fssdp::first_n<layer_id>(layers.layers())) layers.prefetch(layer);
          if (of.agreement_waits() != 0) throw std::runtime_error{"the host has waited"};
          gate.reset();
          cudaStreamSynchronize(of.stream());
        });
  });
  auto const expected = trained_by_threads(retention::keep);
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    REQUIRE(results[rank].parameters == expected[rank]);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("ranks whose loads differ get ranks_disagree, and none waits forever") {
  // loads of rank 1 alone, or of it and others: who has new plans, and who has those of before
  for (auto const others_change : {false, true}) {
    CAPTURE(others_change);
    gpu_double::reset();
    auto const begin = std::chrono::steady_clock::now();
    auto const thrown = nccl_tests::thrown_by({.ranks = 4}, [&](nccl_communicator& comm) {
      auto pinned = fssdp::cuda_pinned_memory{comm.rank()};
      auto model = support::toy_model{{}, comm.rank()};
      auto const compute = fssdp::make_cuda_stream();
      auto beside = fssdp::on_side_stream(comm, compute.get());
      auto layers = support::make_layers(beside, model, options_with(retention::keep, &pinned));
      for (auto i = 0; i < 4; ++i) {
        for (auto const layer : fssdp::first_n<layer_id>(layers.layers())) {
          layers.acquire(layer);
          auto loads = model.loads(layer, i == 2 && others_change ? 4 : 0);
          if (i == 2 && comm.rank().value() == 1) loads = model.loads(layer, 8);
          layers.record(layer, loads);
          layers.release(layer);
        }
        layers.step();
      }
      comm.synchronize();
    });
    for (auto const& of_rank : thrown) {
      CAPTURE(support::text(of_rank));
      REQUIRE(support::is<fssdp::ranks_disagree>(of_rank));
    }
    REQUIRE(support::failed_rank(thrown[0]) == 1);
    REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{15});  // no deadline
  }
}

TEST_CASE("plans that calibration adds are compared in one more exchange") {
  gpu_double::reset();
  auto const before = gpu_double::all_gathers();
  auto const added = nccl_tests::results_of({.ranks = 4}, [&](nccl_communicator& comm) {
    auto pinned = fssdp::cuda_pinned_memory{comm.rank()};
    auto model = support::toy_model{{}, comm.rank()};
    auto const compute = fssdp::make_cuda_stream();
    auto beside = fssdp::on_side_stream(comm, compute.get());
    auto options = options_with(retention::keep, &pinned);
    options.seconds_per_row = 1;
    auto layers = support::make_layers(beside, model, options);
    layers.acquire(layer_id{0});
    auto counts = std::vector<std::uint64_t>(4 * 8, 1);
    for (std::size_t rank = 0; rank < 4; ++rank) counts[rank * 8] = 1000;  // all want expert 0
    auto const calibrated = layers.calibrate(layer_id{0}, {4, 8, counts});
    (void)layers.partials<float>(layer_id{0});
    layers.release(layer_id{0});
    layers.reduce(layer_id{0});
    layers.step();
    cudaStreamSynchronize(compute.get());
    return calibrated ? 1 : 0;
  });
  REQUIRE(added == std::vector(4, 1));
  REQUIRE(gpu_double::all_gathers() - before == 4 * 3);  // of two iterations, and that
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a layer is planned when it is reduced, and again by step if loads are recorded later") {
  gpu_double::reset();
  struct counting_solver {
    int* calls;
    [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                              fssdp::table_layout const& layout) const {
      ++*calls;
      return support::three_replicas()(loads, layout);
    }
  };
  using counts = std::vector<int>;
  auto const found = nccl_tests::results_of({.ranks = 2}, [&](nccl_communicator& comm) {
    auto pinned = fssdp::cuda_pinned_memory{comm.rank()};
    auto model = support::toy_model{{.layers = 1, .ranks = 2}, comm.rank()};
    auto const compute = fssdp::make_cuda_stream();
    auto beside = fssdp::on_side_stream(comm, compute.get());
    auto calls = 0;
    auto layers = support::make_layers(beside, model, options_with(retention::keep, &pinned),
                                       counting_solver{&calls});
    auto const all = layer_id{0};
    auto seen = counts{};  // calls of the solver by acquire, reduce and step
    auto const count = [&](auto call) {
      auto const before = calls;
      call();
      seen.push_back(calls - before);
    };
    for (auto i = 0; i < 3; ++i) {
      count([&] { layers.acquire(all); });
      layers.record(all, model.loads(all, 4 * i));
      (void)layers.partials<float>(all);
      layers.release(all);
      count([&] { layers.reduce(all); });
      if (i == 2) layers.record(all, model.loads(all, 1000));
      count([&] { layers.step(); });
    }
    cudaStreamSynchronize(compute.get());
    return seen;
  });
  for (auto const& seen : found) REQUIRE(seen == counts{1, 1, 0, 0, 1, 0, 0, 1, 1});
}
