// SPDX-License-Identifier: Apache-2.0
/// Ranks over NCCL compare their plans while the host continues, and get an error if they differ.
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "fssdp/plan/schedule.hpp"
#include "nccl/captured.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/device_gate.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;
using fssdp::rank_id;
using nccl_tests::everywhere_buffers;
using nccl_tests::everywhere_plan;
using plan_hashes = std::vector<std::uint64_t>;

namespace {

constexpr auto rank_count = 3;

[[nodiscard]] plan_hashes many_plans(std::size_t count) {
  auto plans = plan_hashes(count);
  std::iota(plans.begin(), plans.end(), 100);
  return plans;
}
[[nodiscard]] plan_hashes changed(plan_hashes plans, std::size_t which) {
  plans[which] = 7;
  return plans;
}

/// What a rank has seen.
struct comparison_report {
  std::vector<int> agreed;  // whether it had, before and after the ranks have compared
  std::uint64_t waits = 0;
};

}  // namespace

TEST_CASE("plans are compared in one exchange, and a rank that checks after that does not wait") {
  gpu_double::reset();
  auto const plans = many_plans(100);
  auto const before = gpu_double::all_gathers();
  auto const reports = nccl_tests::results_of({.ranks = rank_count}, [&](nccl_communicator& comm) {
    auto seen = comparison_report{};
    {
      auto gate = support::device_gate{comm.stream()};
      comm.announce(plans);  // returns while the stream waits
      seen.agreed.push_back(comm.has_agreed(plans.front()) ? 1 : 0);
      gate.open();
      cudaStreamSynchronize(comm.stream());
    }
    for (auto const plan : plans) seen.agreed.push_back(comm.has_agreed(plan) ? 1 : 0);
    for (auto const plan : plans) comm.agree(plan);
    seen.waits = comm.agreement_waits();
    return seen;
  });
  auto expected = std::vector(101, 1);
  expected.front() = 0;
  for (auto const& seen : reports) {
    REQUIRE(seen.agreed == expected);
    REQUIRE(seen.waits == 0);
  }
  REQUIRE(gpu_double::all_gathers() - before == rank_count);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a rank that uses a plan before it is compared waits for that, once") {
  gpu_double::reset();
  auto const plans = many_plans(3);
  auto const reports = nccl_tests::results_of({.ranks = rank_count}, [&](nccl_communicator& comm) {
    auto gate = support::device_gate{comm.stream()};
    comm.announce(plans);
    auto const opens = std::jthread{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      gate.open();
    }};
    for (auto const plan : plans) comm.agree(plan);
    return comm.agreement_waits();
  });
  REQUIRE(reports == std::vector<std::uint64_t>(rank_count, 1));
}

TEST_CASE("a plan that was never announced is compared when it is agreed on, and then known") {
  gpu_double::reset();
  auto const before = gpu_double::all_gathers();
  nccl_tests::on_devices({.ranks = rank_count}, [&](nccl_communicator& comm) {
    for (auto turn = 0; turn < 3; ++turn) comm.agree(5);
  });
  REQUIRE(gpu_double::all_gathers() - before == rank_count);
}

TEST_CASE("all plans of a list are known after one comparison, however long it is") {
  gpu_double::reset();
  auto const plans = many_plans(1000);
  auto const before = gpu_double::all_gathers();
  nccl_tests::on_devices({.ranks = 2}, [&](nccl_communicator& comm) {
    comm.announce(plans);
    for (auto turn = 0; turn < 2; ++turn)
      for (auto const plan : plans) comm.agree(plan);
  });
  REQUIRE(gpu_double::all_gathers() - before == 2);
}

TEST_CASE("lists of plans that differ are refused on every rank") {
  struct difference {
    plan_hashes here, there;  // there: of rank 1
    std::string complaint;
  };
  auto const cases = std::vector<difference>{
      {many_plans(5), changed(many_plans(5), 3), "disagree: plans 67 and 7"},
      {many_plans(5), many_plans(4), "disagree: 5 plans and 4"},
      {many_plans(5), {}, "disagree: 5 plans and 0"},
      {{1, 2}, {2, 1}, "disagree: plans 1 and 2"},
      {many_plans(90), changed(many_plans(90), 89),
       "disagree: one of 90 plans, after the first 61"}};
  for (auto const& of : cases) {
    CAPTURE(of.complaint);
    gpu_double::reset();
    auto const thrown = nccl_tests::thrown_by({.ranks = rank_count}, [&](nccl_communicator& comm) {
      auto const& mine = comm.rank() == rank_id{1} ? of.there : of.here;
      comm.announce(mine);
      comm.agree(mine.empty() ? 100 : mine.front());
    });
    for (auto const& of_rank : thrown) REQUIRE(support::is<fssdp::ranks_disagree>(of_rank));
    REQUIRE(support::failed_rank(thrown[0]) == 1);
    REQUIRE(support::failed_rank(thrown[1]) == 0);
    REQUIRE(support::failed_rank(thrown[2]) == 1);
    REQUIRE_THAT(support::text(thrown[0]), mentions(of.complaint));
    REQUIRE(gpu_double::violations() == std::vector<std::string>{});
  }
}

TEST_CASE("a communicator whose ranks disagree has failed") {
  gpu_double::reset();
  auto const thrown = nccl_tests::thrown_by({.ranks = 2}, [&](nccl_communicator& comm) {
    try {
      comm.agree(static_cast<std::uint64_t>(comm.rank().value()));
    } catch (fssdp::ranks_disagree const&) {
      if (!comm.has_failed()) throw std::runtime_error{"has not failed"};
      comm.close();  // nothing to wait for
      comm.announce(plan_hashes{1});
    }
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(support::is<fssdp::poisoned_stream>(of_rank));
    REQUIRE_THAT(support::text(of_rank),
                 mentions("disagree: plans 0 and 1") || mentions("disagree: plans 1 and 0"));
  }
}

TEST_CASE("ranks that know their plan get an error when another rank comes with a new one") {
  gpu_double::reset();
  auto const begin = std::chrono::steady_clock::now();
  auto const thrown = nccl_tests::thrown_by({.ranks = rank_count}, [](nccl_communicator& comm) {
    auto of = everywhere_plan{rank_count};
    auto mine = everywhere_buffers{of, comm};
    fssdp::warm_up(comm, of.plan);
    if (comm.rank() == rank_id{1})
      of.plan = schedule(of.plan, 48'000'000, {.piece_bytes = 12'000'000});
    fssdp::announce(comm, plan_hashes{of.plan.hash_value(), of.plan.reduction().hash_value()});
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(support::is<fssdp::ranks_disagree>(of_rank));
  }
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{10});  // no deadline
}

TEST_CASE("no plans are announced while a graph is captured") {
  gpu_double::reset();
  auto const thrown = nccl_tests::thrown_by({.ranks = 1}, [](nccl_communicator& comm) {
    (void)nccl_tests::captured(comm, [&] { comm.announce(plan_hashes{1}); });
  });
  REQUIRE(support::is<fssdp::argument_error>(thrown[0]));
  REQUIRE_THAT(support::text(thrown[0]), mentions("a graph is captured; expected that before"));
}
