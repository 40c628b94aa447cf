// SPDX-License-Identifier: Apache-2.0
/// Many iterations: loads drift, owners change, calibration adds replicas; memory stays what it
/// was.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/allocation_counter.hpp"
#include "support/needs.hpp"
#include "support/on_all_ranks.hpp"
#include "support/resident_pages.hpp"
#include "support/toy_model.hpp"

using fssdp::layer_id;
using fssdp::rank_id;
using fssdp::retention;
using fssdp::thread_communicator;
using support::make_layers;
using support::toy_model;
using support::toy_shape;

namespace {

[[nodiscard]] fssdp::sparse_materialization two_replicas() {
  return {.overlap = 4, .spare_slots = 2};
}

}  // namespace

TEST_CASE("gathers and reductions of a materializer allocate nothing once they have run") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const counts = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    auto layers =
        make_layers(streamed, model,
                    {.replicas = retention::rematerialize, .replica_slots = 6, .partial_slots = 12},
                    two_replicas());
    auto on_stream = std::array<long, 2>{};
    auto const note = [&](std::size_t which) {
      stream.enqueue([&, which] { on_stream[which] = support::allocations; });
    };
    for (int i = 0; i < 12; ++i) {
      if (i == 6) note(0);
      train_once(model, layers, 0);  // the loads stay
    }
    note(1);
    stream.synchronize();
    return on_stream[1] - on_stream[0];
  });
  REQUIRE(counts == std::vector(4, 0L));
}

TEST_CASE("many iterations of drifting loads leave memory and pools as they were") {
  constexpr auto iterations = FSSDP_SOAK_STEPS;
  constexpr auto shape = toy_shape{.layers = 2, .elements = {64, 3}};
  auto pages = std::array<long, 2>{};
  auto const results = support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    auto token_comm = comm.duplicate();
    auto layers = make_layers(streamed, model,
                              {.replicas = retention::rematerialize,
                               .prefetch_distance = 1,
                               .replica_slots = 5,
                               .partial_slots = 12,
                               .seconds_per_row = 1,
                               .reshard_every = 100},
                              two_replicas());
    auto turned = std::vector<rank_id>{};  // the owners, the other way round
    for (int e = 0; e < shape.experts; ++e) turned.emplace_back(3 - e / 2);
    auto const other = toy_model::layouts_type{
        std::vector(2, fssdp::table_layout{{.ranks = shape.ranks}, std::move(turned)})};
    auto total = fssdp::iteration_metrics{};
    auto wrong = 0;
    for (int i = 0; i < iterations; ++i) {
      if (comm.rank() == rank_id{0} && (i == iterations / 4 || i + 1 == iterations))
        pages[i + 1 == iterations ? 1 : 0] = support::resident_pages();
      if (layers.is_reshard_due())
        layers.reshard(layers.layouts() == other ? model.layouts() : other,
                       fssdp::bytes_of(model.weights()));
      for (auto const l : fssdp::first_n<layer_id>(shape.layers)) {
        layers.acquire(l);
        auto const mine = model.loads(l, i + 3);  // not quite what was predicted
        (void)layers.calibrate(l, fssdp::gather_counts(token_comm, mine));
        auto const experts = layers.experts<float>(l);
        for (std::size_t e = 0; e < experts.size(); ++e) {
          auto const expert = experts[e].id.value();
          auto const first = toy_model{shape, rank_id{expert / 2}}.parameters();
          auto const at = (2 * l.index() + static_cast<std::size_t>(expert % 2)) * 64;
          if (i % 50 == 49) wrong += experts[e].tensors[0][5] == first[at + 5] ? 0 : 1;
        }
        layers.record(l, model.loads(l, i));
        layers.release(l);
      }
      for (int l = shape.layers; l-- != 0;) {
        layers.acquire(layer_id{l}, 0, fssdp::training_pass::backward);
        auto const experts = layers.experts<float>(layer_id{l});
        model.backward(experts, layers.partials<float>(layer_id{l}), 0);
        layers.release(layer_id{l});
        layers.reduce(layer_id{l});
      }
      auto const metrics = layers.step();
      total.replica_slots_peak = std::max(total.replica_slots_peak, metrics.replica_slots_peak);
      total.partial_slots_peak = std::max(total.partial_slots_peak, metrics.partial_slots_peak);
      total.replica_slots_now += metrics.replica_slots_now + metrics.partial_slots_now;
      total.calibrations_accepted += metrics.calibrations_accepted;
      total.placements_shrunk += metrics.placements_shrunk;
    }
    return std::pair{total, wrong};
  });
  for (auto const& [total, wrong] : results) {
    REQUIRE(wrong == 0);
    REQUIRE(total.replica_slots_peak <= 5);
    REQUIRE(total.partial_slots_peak <= 12);
    REQUIRE(total.replica_slots_now == 0);  // after every single step
    REQUIRE(total.calibrations_accepted > iterations / 20);
  }
  REQUIRE(pages[1] <= pages[0] + 512);  // two megabytes, for allocators that hold on to some
}

TEST_CASE("the process takes the memory of the pools, and no more for more layers") {
  if (auto const lacks = support::lacks_resident_pages(); !lacks.empty()) return skip_test(lacks);
  constexpr auto megabyte = std::size_t{1} << 20U;
  auto const taken = [&](int layers) {
    auto const shape =
        toy_shape{.layers = layers, .experts = 4, .ranks = 2, .elements = {megabyte / 4, 1}};
    auto const grown = support::on_all_ranks(shape.ranks, [&](thread_communicator& comm) {
      auto model = toy_model{shape, comm.rank()};
      auto together = comm.duplicate();
      auto const all_have_come = [&] { (void)fssdp::sum_loads(together, fssdp::expert_loads{1}); };
      all_have_come();
      auto const before = support::resident_pages();
      all_have_come();
      auto stream = fssdp::host_stream{};
      auto streamed = fssdp::on_stream(comm, stream);
      auto layers_of_model = make_layers(
          streamed, model,
          {.replicas = retention::rematerialize, .replica_slots = 4, .partial_slots = 8},
          two_replicas());
      for (int i = 0; i < 3; ++i) train_once(model, layers_of_model, i);
      all_have_come();
      auto const after = support::resident_pages();
      all_have_come();
      return (after - before) * 4 / 1024;  // megabytes, if pages have 4 KiB
    });
    return grown[0];
  };
  auto const pools = 2 * (4 + 8);  // megabytes, of both ranks
  auto const few = taken(2);
  auto const many = taken(8);
  CAPTURE(few, many);
  REQUIRE(few <= pools + 6);
  REQUIRE(many <= pools + 6);
}
