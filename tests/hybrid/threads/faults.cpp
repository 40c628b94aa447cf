// SPDX-License-Identifier: Apache-2.0
/// A rank that fails or stalls between groups is named on every rank, within the deadline.
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::rank_id;

namespace {

using namespace std::chrono_literals;

/// Two groups of two ranks; rank 3 does odd(others) in its third step. `others` counts those of the
/// other ranks that have not left.
template <class Odd>
[[nodiscard]] support::fallout fallout_with(Odd odd) {
  struct leaving {
    std::latch* counted;
    ~leaving() {
      if (counted != nullptr) counted->count_down();
    }
  };
  auto others = std::latch{3};
  auto const groups = fssdp::hybrid_groups{{.groups = 2, .ranks_per_group = 2}};
  auto const layouts = support::owners_by_chance(6, 2, 1);
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = 1s}};
  return support::fallout_of(world, [&](fssdp::thread_communicator& comm) {
    auto const leaves = leaving{comm.rank() == rank_id{3} ? nullptr : &others};
    auto two = fssdp::split(comm, groups);
    auto exchange = fssdp::gradient_exchange{two.between,
                                             layouts,
                                             two.inside.rank(),
                                             support::two_shapes(),
                                             {.compressor = fssdp::low_rank_compressor{2}}};
    auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
    for (std::uint64_t step = 0; step < 5; ++step) {
      if (step == 2 && comm.rank() == rank_id{3}) odd(others);
      for (auto const layer : fssdp::first_n<layer_id>(2)) {
        support::write_gradients(layouts, layer, two.inside.rank(), two.between.rank().value(),
                                 step, gradients);
        exchange.average(layer, gradients);
      }
      exchange.advance();
      (void)fssdp::all_reduce(two.inside, std::vector{1.0});  // as a step inside the group does
    }
  });
}

}  // namespace

TEST_CASE("when a rank throws between groups, all groups get an error that names it") {
  auto const end = fallout_with([](std::latch const&) { throw std::runtime_error{"broken"}; });
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    auto const& thrown = end.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("broken") != std::string::npos);
    if (rank != 3) CHECK(support::is<fssdp::peer_failed>(thrown));
  }
}

TEST_CASE("a rank that stalls between groups is named within the deadline") {
  auto const end = fallout_with([](std::latch const& others) {
    for (int n = 0; n < 3000 && !others.try_wait(); ++n) std::this_thread::sleep_for(10ms);
  });
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    auto const& thrown = end.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("rank 3") != std::string::npos);
  }
}

TEST_CASE("a group that leaves while an exchange is under way: it is named, anchors are intact") {
  auto const groups = fssdp::hybrid_groups{{.groups = 3}};
  auto const layouts = support::owners_by_chance(3, 1, 1);
  auto world = fssdp::thread_world{{.ranks = 3, .deadline = 1s}};
  auto intact = std::vector<char>(3);
  auto const end = support::fallout_of(world, [&](fssdp::thread_communicator& comm) {
    auto two = fssdp::split(comm, groups);
    auto stream = fssdp::host_stream{};
    auto exchange = fssdp::parameter_exchange{
        two.between, layouts, rank_id{0}, support::two_shapes(), {.stream = &stream}};
    auto weights = fssdp::expert_buffer<float>{3, support::sizes_of(support::two_shapes())};
    support::write_gradients(layouts, layer_id{0}, rank_id{0}, 0, 0, weights);
    exchange.begin(layer_id{0}, weights);
    exchange.synchronize(layer_id{0}, weights);
    exchange.advance();
    auto const anchor = fssdp::hash_of_bits(exchange.kept());
    for (auto& value : weights.tensors()[0][0]) value += 1;  // what is learned in a round
    auto const learned = fssdp::hash_of_bits(weights);
    if (comm.rank() == rank_id{2}) throw std::runtime_error{"gone"};
    exchange.start(layer_id{0}, weights);
    try {
      exchange.finish(layer_id{0}, weights);
    } catch (...) {
      intact[comm.rank().index()] =
          fssdp::hash_of_bits(exchange.kept()) == anchor && fssdp::hash_of_bits(weights) == learned
              ? 1
              : 0;
      throw;
    }
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    REQUIRE(end.of_rank[rank] != nullptr);
    CHECK(fssdp::detail::what(end.of_rank[rank]).find("gone") != std::string::npos);
    CHECK(intact[rank] == 1);
  }
}

namespace {

/// Two groups of one rank that come together in rounds; the odd one has other options, or another
/// step. How many ranks have got ranks_disagree, and how many have changed their parameters.
template <class Exchange, class Options>
[[nodiscard]] std::pair<int, int> disagreement(Options const& all, Options const& odd,
                                               std::uint64_t odd_step = 4) {
  auto const layouts = support::owners_by_chance(3, 1, 1);
  auto world = fssdp::thread_world{{.ranks = 2, .deadline = 2s}};
  auto changed = std::vector<char>(2);
  auto const end = support::fallout_of(world, [&](fssdp::thread_communicator& between) {
    auto const is_odd = between.rank() == rank_id{1};
    auto exchange =
        Exchange{between, layouts, rank_id{0}, support::two_shapes(), is_odd ? odd : all};
    auto weights = fssdp::expert_buffer<float>{3, support::sizes_of(support::two_shapes())};
    exchange.begin(layer_id{0}, weights);
    auto const before = fssdp::hash_of_bits(weights);
    auto const step = is_odd ? odd_step : std::uint64_t{4};
    try {
      if constexpr (std::same_as<Exchange, fssdp::parameter_exchange>)
        exchange.synchronize(layer_id{0}, weights, step);
      else
        exchange.synchronize(layer_id{0}, weights, 1, step);
    } catch (...) {
      changed[between.rank().index()] = fssdp::hash_of_bits(weights) == before ? 0 : 1;
      throw;
    }
  });
  auto disagree = 0;
  for (auto const& thrown : end.of_rank)
    disagree += thrown != nullptr && support::is<fssdp::ranks_disagree>(thrown) ? 1 : 0;
  return {disagree, changed[0] + changed[1]};
}

}  // namespace

TEST_CASE("groups that differ in rounds disagree before a parameter changes") {
  using rounds = fssdp::parameter_exchange;
  using options = fssdp::parameter_exchange_options;
  auto const found = [](std::pair<int, int> const& of) { return of.first >= 1 && of.second == 0; };
  CHECK(found(disagreement<rounds>(options{}, options{.outer = fssdp::diloco})));
  CHECK(found(disagreement<rounds>(options{}, options{.mix = 0.5})));
  CHECK(found(disagreement<rounds>(options{}, options{.seed = 1})));
  CHECK(
      found(disagreement<rounds>(options{}, options{.compressor = fssdp::low_rank_compressor{2}})));
  CHECK(found(disagreement<rounds>(options{}, options{}, 8)));  // another number of steps
  CHECK(disagreement<rounds>(options{}, options{}) == std::pair{0, 0});

  using late = fssdp::delayed_exchange;
  using late_options = fssdp::delayed_exchange_options;
  CHECK(found(disagreement<late>(late_options{}, late_options{.momentum = 0.5})));
  CHECK(found(disagreement<late>(late_options{}, late_options{.clip = 2})));
  CHECK(found(disagreement<late>(late_options{}, late_options{}, 8)));
  CHECK(disagreement<late>(late_options{}, late_options{}) == std::pair{0, 0});
}
