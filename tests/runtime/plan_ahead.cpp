// SPDX-License-Identifier: Apache-2.0
/// Placements and plans that are made before an iteration begins, by planners of the caller's: the
/// bits are the same, and whatever goes wrong ends on every rank, in time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::materializer;
using fssdp::materializer_options;
using fssdp::materializer_policy;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::overlap;
using support::toy_model;
using support::toy_shape;

namespace {

using namespace std::chrono_literals;

[[nodiscard]] materializer_options roomy() { return {.replica_slots = 40, .partial_slots = 40}; }

/// A materializer of a toy model with a policy.
template <class Comm>
[[nodiscard]] materializer layers_of(Comm& comm, toy_model& model, materializer_policy policy,
                                     materializer_options const& options) {
  return materializer{comm,
                      fssdp::expert_shards{model.layouts(), model.shape().elements, model.weights(),
                                           model.gradients()},
                      std::move(policy), options};
}

/// All parameters of all ranks after some iterations.
template <class PolicyOf>
[[nodiscard]] std::vector<std::vector<float>> trained(materializer_options const& options,
                                                      overlap how, int micro_batches,
                                                      PolicyOf policy_of) {
  return support::on_all_ranks(4, [&](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    support::run_on_stream(comm, how, [&](auto& streamed) {
      auto layers = layers_of(streamed, model, policy_of(comm.rank()), options);
      for (int i = 0; i < 9; ++i) train_once(model, layers, i, micro_batches);
    });
    return model.parameters();
  });
}

/// Which threads have asked a solver.
struct watched_solver {
  std::vector<std::thread::id>* askers;

  template <fssdp::shard_layout Layout>
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            Layout const& layout) const {
    askers->push_back(std::this_thread::get_id());
    return support::three_replicas()(loads, layout);
  }
};

/// Trains with a planner that one rank has for itself; who has ended how.
template <class Planner>
[[nodiscard]] support::fallout fallout_with(Planner odd, bool plan_ahead) {
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = 2s}};
  return support::fallout_of(world, [&](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    support::run_on_stream(comm, overlap::on, [&](auto& streamed) {
      auto policy = materializer_policy{.placement = support::three_replicas()};
      if (comm.rank() == rank_id{2}) policy.planner = odd;
      auto options = roomy();
      options.plan_ahead = plan_ahead;
      auto layers = layers_of(streamed, model, std::move(policy), options);
      for (int i = 0; i < 9; ++i) train_once(model, layers, i);
    });
  });
}

}  // namespace

TEST_CASE("planning ahead changes no bit") {
  auto const policy = [](rank_id) {
    return materializer_policy{.placement = support::three_replicas()};
  };
  for (auto const how : {overlap::off, overlap::on})
    for (int micro_batches : {1, 2}) {
      auto const base = trained(roomy(), how, micro_batches, policy);
      for (auto const replicas : {fssdp::retention::keep, fssdp::retention::rematerialize}) {
        CAPTURE(how == overlap::on, micro_batches, replicas == fssdp::retention::keep);
        auto options = roomy();
        options.replicas = replicas;
        options.plan_ahead = true;
        REQUIRE(trained(options, how, micro_batches, policy) == base);
      }
    }
}

TEST_CASE("with planning ahead the caller solves only in the first iteration") {
  for (auto const ahead : {false, true}) {
    CAPTURE(ahead);
    auto const counts = support::on_all_ranks(4, [&](thread_communicator& comm) {
      auto model = toy_model{{}, comm.rank()};
      auto askers = std::vector<std::thread::id>{};
      {
        auto options = roomy();
        options.plan_ahead = ahead;
        auto layers = layers_of(comm, model, {.placement = watched_solver{&askers}}, options);
        for (int i = 0; i < 5; ++i) train_once(model, layers, i);
      }
      auto const by_caller = std::ranges::count(askers, std::this_thread::get_id());
      return std::pair{by_caller, static_cast<std::ptrdiff_t>(askers.size()) - by_caller};
    });
    for (auto const& [by_caller, beside] : counts) {
      CHECK(by_caller == (ahead ? 3 : 6));  // of 3 layers, whose loads change once in 5 iterations
      CHECK((beside > 0) == ahead);
    }
  }
}

TEST_CASE("loads that are recorded behind the reduction are planned with as well") {
  auto const run = [](bool ahead) {
    return support::on_all_ranks(4, [&](thread_communicator& comm) {
      auto model = toy_model{{}, comm.rank()};
      auto options = roomy();
      options.plan_ahead = ahead;
      auto layers = layers_of(comm, model, {.placement = support::three_replicas()}, options);
      auto held = std::vector<fssdp::placement>{};
      for (int i = 0; i < 6; ++i) {
        support::go_through(model, layers, i);
        for (auto const l : fssdp::first_n<fssdp::layer_id>(3)) {
          held.push_back(layers.where(l));
          layers.record(l, model.loads(l, 100 * i));
        }
        layers.step();
        model.update();
      }
      return std::pair{model.parameters(), held};
    });
  };
  REQUIRE(run(true) == run(false));
}

TEST_CASE("ranks of a process may share a cache of plans") {
  auto calls = std::atomic<int>{0};
  auto cache = fssdp::plan_cache{64, [&](fssdp::plan_request const& of) {
                                   ++calls;
                                   return fssdp::make_requested_plan(of);
                                 }};
  auto options = roomy();
  options.topology = fssdp::topology{{.nodes = 2, .ranks = 4}};
  options.schedule = fssdp::schedule_options{};
  auto const alone = trained(options, overlap::on, 1, [](rank_id) {
    return materializer_policy{.placement = support::three_replicas()};
  });
  for (auto const ahead : {false, true}) {
    options.plan_ahead = ahead;
    REQUIRE(trained(options, overlap::on, 1, [&](rank_id) {
              return materializer_policy{.placement = support::three_replicas(),
                                         .planner = std::ref(cache)};
            }) == alone);
  }
  // at most 3 layers x (nobody knows the loads, 3 sets of loads and the steps between them)
  CHECK(calls <= 3 * 16);
  CHECK(calls >= 3);
  CHECK(calls == static_cast<int>(cache.size()));
}

TEST_CASE("a materializer without a planner is an error that says what was expected") {
  auto const errors = support::on_all_ranks(1, [](thread_communicator& comm) {
    auto model = toy_model{{.ranks = 1}, comm.rank()};
    try {
      (void)layers_of(comm, model, {.planner = nullptr}, {});
    } catch (fssdp::argument_error const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  });
  CHECK(errors[0] ==
        "materializer: the planner is null; expected make_requested_plan, a plan_cache or another "
        "planner");
}

TEST_CASE("one rank with another plan gives an error on every rank") {
  for (auto const ahead : {false, true}) {
    CAPTURE(ahead);
    // the same placement, realised by other transfers
    auto const end = fallout_with(
        [](fssdp::plan_request const& of) {
          return fssdp::schedule(fssdp::make_requested_plan(of), of.chunk_bytes,
                                 {.piece_bytes = 64});
        },
        ahead);
    auto disagree = 0;
    for (auto const& thrown : end.of_rank) {
      REQUIRE(thrown != nullptr);
      disagree += support::is<fssdp::ranks_disagree>(thrown) ? 1 : 0;
    }
    CHECK(disagree >= 1);
  }
}

TEST_CASE("when a planner throws, every rank gets the error") {
  for (auto const ahead : {false, true}) {
    CAPTURE(ahead);
    auto calls = std::atomic<int>{0};
    auto const broken = fallout_with(
        [&](fssdp::plan_request const& of) {
          if (++calls > 4) throw std::runtime_error{"out of ideas"};
          return fssdp::make_requested_plan(of);
        },
        ahead);
    for (int rank = 0; rank < 4; ++rank) {
      CAPTURE(rank);
      auto const& thrown = broken.of_rank[static_cast<std::size_t>(rank)];
      REQUIRE(thrown != nullptr);
      auto const what = fssdp::detail::what(thrown);
      CHECK(what.find("out of ideas") != std::string::npos);
      if (rank != 2) CHECK(support::is<fssdp::peer_failed>(thrown));
    }
  }
}

TEST_CASE("a planner that is late gives an error within the deadline") {
  auto const late = fallout_with(
      [calls = 0](fssdp::plan_request const& of) mutable {
        if (++calls == 5) std::this_thread::sleep_for(4s);
        return fssdp::make_requested_plan(of);
      },
      true);
  for (auto const& thrown : late.of_rank) {
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("rank 2") != std::string::npos);
  }
}

TEST_CASE("when a solver throws on the planning thread, the caller gets the error") {
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = 2s}};
  auto const end = support::fallout_of(world, [&](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto options = roomy();
    options.plan_ahead = true;
    auto calls = std::make_shared<std::atomic<int>>(0);
    auto const solver = [calls, rank = comm.rank()](std::span<std::uint64_t const> loads,
                                                    fssdp::table_layout const& layout) {
      if (++*calls == 5 && rank == rank_id{1}) throw std::runtime_error{"no placement"};
      return support::three_replicas()(loads, layout);
    };
    auto layers = layers_of(comm, model, {.placement = solver}, options);
    for (int i = 0; i < 9; ++i) train_once(model, layers, i);
  });
  for (auto const& thrown : end.of_rank) {
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("no placement") != std::string::npos);
  }
}
