// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, the laws and the bits of threads, where ranks are processes over
/// NCCL that may share a device (nccl_processes.sh). All of them run all tests and compare what all
/// have found, so that they fail together. usage: gpu_nccl_contract RANK RANKS FILE [Catch2's
/// arguments]   they meet in files whose names begin with FILE
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"
#include "gpu/nccl_processes.hpp"
#include "gpu/pinned_memory.hpp"
#include "support/coded_laws_on_devices.hpp"
#include "support/laws_on_devices.hpp"
#include "support/moved_rows.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_counts.hpp"

namespace {

gpu_tests::nccl_processes* processes = nullptr;  // as long as tests run

struct nccl_world {
  using communicator = fssdp::nccl_communicator;

  static int most_ranks() { return processes->size(); }
  static long total(long here) { return processes->meeting().total(here); }
  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    processes->run({.ranks = of.ranks, .deadline = of.deadline}, work);
  }
};

/// What the checks of laws are given.
constexpr auto results_of = [](int ranks, auto const& work) {
  return processes->results_of({.ranks = ranks}, work);
};
/// As these, for no more ranks than there are.
[[nodiscard]] support::size_limits fitting(support::size_limits limits) {
  limits.ranks = std::min(limits.ranks, processes->size());
  return limits;
}

}  // namespace

/// Each process says what differs on its own ranks; of others it knows how much.
template <>
struct gpu_tests::message_form<support::products> {
  struct message {
    double gathered_times_partials;
    double parameters_times_gradients;
    long wrong;
  };
  static std::string bytes(support::products const& of) {
    return message_form<message>::bytes(
        {of.gathered_times_partials, of.parameters_times_gradients, of.wrong.count()});
  }
  static support::products value(std::string const& bytes) {
    auto const of = message_form<message>::value(bytes);
    return {of.gathered_times_partials, of.parameters_times_gradients, of.wrong};
  }
};

TEST_CASE("nccl_communicator keeps the contract between processes") {
  contract::communicator_contract<nccl_world>::check(
      {.instances = support::some_instances / 2, .refuses_peers = true});
}

TEST_CASE("<G x, y> = <x, G^T y>, exactly, between processes") {
  support::check_transpose_on_devices(results_of, fitting(support::few_devices));
}

TEST_CASE("<G x, y> = <x, G^T y>, exactly, between processes, in whatever dtype experts are") {
  support::check_transpose_of_dtypes_on_devices(results_of, fitting(support::few_devices));
}

TEST_CASE("processes give the bits that threads give, by any schedule and in rank order") {
  support::check_bits_on_devices(results_of, fitting(support::few_devices));
}

TEST_CASE("coded collectives between processes give the bits that threads give") {
  support::check_coded_bits_on_devices(results_of, fitting(support::few_coding_devices));
}

TEST_CASE("coded reductions between processes leave the residuals that threads leave") {
  support::check_feedback_on_devices(results_of, fitting(support::few_coding_devices));
}

TEST_CASE("tokens reach their experts and come back between processes as between threads") {
  using fssdp::row_order;
  auto turn = 0;
  support::for_random_instances(
      support::some_instances,
      [&](support::random_instance const& of) {
        auto const counts = support::random_counts(of, of.loads.size());
        auto const ranks = of.plan.ranks();
        auto const orders =
            fssdp::row_orders{turn % 2 == 0 ? row_order::by_expert : row_order::by_rank,
                              turn / 2 % 2 == 0 ? row_order::by_expert : row_order::by_rank};
        auto const how =
            fssdp::token_options{.pack_below = turn / 4 % 2 == 0 ? std::size_t(-1) : 0};
        ++turn;
        auto const here = support::on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
          return support::move_rows(comm, counts, of, orders);
        });
        auto const differ = processes->results_of({.ranks = ranks}, [&](auto& comm) {
          auto const there = support::move_rows(comm, counts, of, orders, how);
          return there == here[comm.rank().index()] ? 0 : 1;
        });
        REQUIRE(differ == std::vector<int>(static_cast<std::size_t>(ranks), 0));
      },
      fitting({.ranks = 6, .nodes = 3, .experts = 16}));
}

int main(int arguments, char** values) {
  if (arguments < 4) {
    std::fprintf(stderr, "usage: %s RANK RANKS FILE [ARGUMENT OF CATCH2...]\n", values[0]);
    return 2;
  }
  auto const me = fssdp::rank_id{std::atoi(values[1])};
  try {
    auto all = gpu_tests::nccl_processes{me, std::atoi(values[2]), values[3]};
    auto const pinned = gpu_tests::pinned_memory{std::size_t{1} << 30U};
    processes = &all;
    auto session = Catch::Session{};
    auto failed = session.applyCommandLine(arguments - 3, values + 3);
    session.configData().abortAfter = 1;  // the others would not reach what follows
    if (failed == 0) failed = session.run();
    if (failed == 0) all.close();
    return failed == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "rank %d: %s\n", me.value(), error.what());
    return 1;
  }
}
