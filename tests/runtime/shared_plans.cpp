// SPDX-License-Identifier: Apache-2.0
/// Plans of which each rank makes its share for all: the bits are the same, the work is shared, and
/// whatever goes wrong on one rank ends on every rank, in time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::communicator_ref;
using fssdp::materializer;
using fssdp::materializer_options;
using fssdp::materializer_policy;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::overlap;
using support::toy_model;

namespace {

using namespace std::chrono_literals;
using solver = fssdp::any_placement_solver;

[[nodiscard]] materializer_options planned_ahead() {
  return {.replica_slots = 40,
          .partial_slots = 40,
          .topology = fssdp::topology{{.nodes = 2, .ranks = 4}},
          .schedule = fssdp::schedule_options{.piece_bytes = 512},
          .plan_ahead = true};
}

[[nodiscard]] solver same_for_all(rank_id) { return support::three_replicas(); }

enum class sharing { off, on };

/// Trains on one rank, some iterations.
template <class SolverOf>
[[nodiscard]] std::vector<float> train(thread_communicator& comm, materializer_options options,
                                       sharing how, int micro_batches, SolverOf solver_of) {
  auto model = toy_model{{}, comm.rank()};
  auto plans = comm.duplicate();
  if (how == sharing::on) options.share_plans = communicator_ref{plans};
  support::run_on_stream(comm, overlap::on, [&](auto& streamed) {
    auto layers = support::make_layers(streamed, model, options, solver_of(comm.rank()));
    for (int i = 0; i < 9; ++i) train_once(model, layers, i, micro_batches);
  });
  return model.parameters();
}

/// The same on four ranks: all parameters.
template <class SolverOf>
[[nodiscard]] auto trained(materializer_options const& options, sharing how, int micro_batches,
                           SolverOf solver_of) {
  return support::on_all_ranks(4, [&](thread_communicator& comm) {
    return train(comm, options, how, micro_batches, solver_of);
  });
}

/// The same with deadlines: who has ended how.
template <class SolverOf>
[[nodiscard]] support::fallout fallout_with(SolverOf solver_of) {
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = 2s}};
  return support::fallout_of(world, [&](thread_communicator& comm) {
    (void)train(comm, planned_ahead(), sharing::on, 1, solver_of);
  });
}

/// Asks another solver, and may do something before: from the loads and how often it has been asked.
template <class Before>
[[nodiscard]] solver watched(Before before) {
  auto const calls = std::make_shared<std::atomic<int>>(0);
  return [calls, before](std::span<std::uint64_t const> loads, fssdp::table_layout const& layout) {
    before(++*calls);
    return support::three_replicas()(loads, layout);
  };
}

}  // namespace

TEST_CASE("shared plans change no bit") {
  for (int micro_batches : {1, 2})
    for (auto const replicas : {fssdp::retention::keep, fssdp::retention::rematerialize})
      for (double tolerance : {0.0, 0.2}) {
        CAPTURE(micro_batches, replicas == fssdp::retention::keep, tolerance);
        auto options = planned_ahead();
        options.replicas = replicas;
        options.load_tolerance = tolerance;
        REQUIRE(trained(options, sharing::on, micro_batches, same_for_all) ==
                trained(options, sharing::off, micro_batches, same_for_all));
      }
}

TEST_CASE("shared plans change no bit where pools have less room than the solver wants") {
  for (std::size_t slots : {9U, 4U, 1U, 0U}) {
    CAPTURE(slots);
    auto options = planned_ahead();
    options.replicas = fssdp::retention::rematerialize;
    options.replica_slots = slots;
    REQUIRE(trained(options, sharing::on, 1, same_for_all) ==
            trained(options, sharing::off, 1, same_for_all));
  }
}

TEST_CASE("with shared plans each layer is solved by one rank") {
  auto const calls_of = [](sharing how) {
    auto calls = std::atomic<int>{0};
    (void)trained(planned_ahead(), how, 1, [&](rank_id) { return watched([&](int) { ++calls; }); });
    return calls.load();
  };
  auto const alone = calls_of(sharing::off);
  auto const shared = calls_of(sharing::on);
  auto const at_first = 3 * 4;  // nobody knows the loads: all ranks, of all layers
  CHECK(shared - at_first == (alone - at_first) / 4);
  CHECK(alone > at_first);
}

TEST_CASE("the layouts of plans that are shared follow the owners") {
  auto const run = [](sharing how) {
    return support::on_all_ranks(4, [&](thread_communicator& comm) {
      auto model = toy_model{{}, comm.rank()};
      auto plans = comm.duplicate();
      auto options = planned_ahead();
      options.reshard_every = 2;
      if (how == sharing::on) options.share_plans = communicator_ref{plans};
      auto layers = support::make_layers(comm, model, options, support::three_replicas(),
                                         support::one_rank_on{});
      for (int i = 0; i < 9; ++i) {
        support::go_through(model, layers, i);
        layers.step([&](auto const&) { model.update(); },
                    fssdp::bytes_of(model.weights(), model.gradients()));
      }
      return model.parameters();
    });
  };
  REQUIRE(run(sharing::on) == run(sharing::off));
}

TEST_CASE("when a solver throws on one rank, all that share its plans get the error") {
  // layers that are planned together go to ranks 0, 1 and 2
  auto const end = fallout_with([](rank_id rank) {
    return watched([rank](int call) {
      if (rank == rank_id{1} && call > 3) throw std::runtime_error{"out of ideas"};
    });
  });
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    auto const& thrown = end.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(thrown != nullptr);
    auto const what = fssdp::detail::what(thrown);
    CAPTURE(what);
    CHECK(what.find("out of ideas") != std::string::npos);
    // rank 1 may hear of one that has ended because of it before it ends itself
    if (rank != 1) CHECK(support::is<fssdp::peer_failed>(thrown));
  }
}

TEST_CASE("a rank that is late with its share is named within the deadline") {
  auto const begin = std::chrono::steady_clock::now();
  auto const end = fallout_with([](rank_id rank) {
    return watched([rank](int call) {
      if (rank == rank_id{2} && call == 4) std::this_thread::sleep_for(5s);
    });
  });
  for (auto const& thrown : end.of_rank) {
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("rank 2") != std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 60s);  // ends at all
}

TEST_CASE("ranks that plan by other loads disagree before a plan is used") {
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = 2s}};
  auto const end = support::fallout_of(world, [&](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto plans = comm.duplicate();
    auto options = planned_ahead();
    options.share_plans = communicator_ref{plans};
    auto layers = support::make_layers(comm, model, options);
    for (int i = 0; i < 4; ++i) {
      auto const odd = comm.rank() == rank_id{3};
      for (auto const layer : fssdp::first_n<fssdp::layer_id>(3)) {
        layers.acquire(layer);
        layers.record(layer, model.loads(layer, odd ? 100 + i : i));
        layers.release(layer);
      }
      for (auto const layer : fssdp::first_n<fssdp::layer_id>(3)) layers.reduce(layer);
      layers.step();
    }
  });
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    auto const& thrown = end.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(thrown != nullptr);
    auto const what = fssdp::detail::what(thrown);
    CAPTURE(what);
    // a rank may hear of one that has seen it and ended before it sees it itself
    if (!support::is<fssdp::ranks_disagree>(thrown)) CHECK(support::is<fssdp::peer_failed>(thrown));
    CHECK(what.find("or has recorded other loads") != std::string::npos);
    if (rank != 3) CHECK(what.find("rank 3") != std::string::npos);
  }
}

TEST_CASE("plans are shared among the ranks of the materializer, and ahead") {
  auto const errors = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto model = toy_model{{.ranks = 2}, comm.rank()};
    auto plans = comm.duplicate();
    auto alone = fssdp::thread_world{1};
    auto texts = std::vector<std::string>{};
    auto const refusal_of = [&](materializer_options const& options) {
      try {
        (void)support::make_layers(comm, model, options);
      } catch (fssdp::argument_error const& error) {
        texts.emplace_back(error.what());
      }
    };
    refusal_of({.share_plans = communicator_ref{plans}});
    alone.run([&](thread_communicator& other) {
      refusal_of({.plan_ahead = true, .share_plans = communicator_ref{other}});
    });
    return texts;
  });
  CHECK(errors[0] == std::vector<std::string>{
                         "materializer: share_plans without plan_ahead; expected both",
                         "materializer: share_plans has rank 0 of 1; expected rank 0 of 2"});
}
