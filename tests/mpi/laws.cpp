// SPDX-License-Identifier: Apache-2.0
/// Gathers and reductions between processes leave the bits that they leave between threads, by
/// rounds and forwarded, and keep the law of the transpose.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "mpi/processes.hpp"
#include "support/coded_bits.hpp"
#include "support/collective_bits.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"
#include "support/scheduled_plan.hpp"

using fssdp::mpi_communicator;
using mpi_tests::processes;
using mpi_tests::sum_over;

namespace {

constexpr auto plans = std::uint64_t{support::law_instances / 500 + 7};

/// Plans for as many ranks as there are processes, or fewer.
[[nodiscard]] support::random_instance instance(std::uint64_t seed) {
  auto const limits = support::size_limits{.ranks = processes().size(), .nodes = 3, .experts = 16};
  return seed % 2 == 0 ? support::relayed_instance(seed, limits)
                       : support::random_instance{seed, limits};
}

/// What differs in bits_over(comm) from what it is between threads.
template <class BitsOver>
[[nodiscard]] support::differences unlike_threads(int ranks, fssdp::mpi_options const& options,
                                                  BitsOver bits_over) {
  auto const expected = support::on_all_ranks(
      ranks, [&](fssdp::thread_communicator& comm) { return bits_over(comm); });
  return sum_over(ranks, options, [&](mpi_communicator& comm) {
    auto const& right = expected[comm.rank().index()];
    auto by_rounds = support::exchange_only{comm};
    return support::differences_of(bits_over(comm), right, "rank ", comm.rank()) +
           support::differences_of(bits_over(by_rounds), right, "rank ", comm.rank(), " by rounds");
  });
}

}  // namespace

TEST_CASE("between processes a reduction is the transpose of a gather") {
  for (std::uint64_t seed = 1; seed <= plans; ++seed) {
    CAPTURE(seed);
    auto const of = instance(seed);
    auto difference = 0L;  // whole numbers: exact in any order
    auto const wrong = sum_over(of.plan.ranks(), {}, [&](mpi_communicator& comm) {
      auto mine = support::rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
      difference = static_cast<long>(mine.gathered_times_partials()) -
                   static_cast<long>(mine.parameters_times_gradients());
      return mine.wrong_replicas() + mine.wrong_gradients() + mine.wrong_inputs();
    });
    REQUIRE(wrong == 0);
    REQUIRE(processes().total(difference) == 0);
  }
}

TEST_CASE("processes and threads get the same bits") {
  auto passed_on = 0;
  for (std::uint64_t seed = 1; seed <= plans; ++seed) {
    CAPTURE(seed);
    auto const of = instance(seed);
    passed_on += of.plan.rounds() > 1 ? 1 : 0;
    // every other time in parts of a few hundred bytes
    auto const options =
        fssdp::mpi_options{.most_message_bytes = seed % 2 == 0 ? std::size_t{1} << 30U : 333};
    REQUIRE(unlike_threads(of.plan.ranks(), options,
                           [&](auto& comm) { return support::collective_bits(comm, of); }) == 0);
  }
  REQUIRE((processes().size() < 3 || passed_on > 0));
}

TEST_CASE("processes and threads get the same bits with coded links") {
  for (std::uint64_t seed = 1, tried = 0; tried < plans; ++seed) {
    auto const of = support::coded_instance{seed};
    if (of.plan.ranks() > processes().size()) continue;
    ++tried;
    CAPTURE(seed);
    REQUIRE(unlike_threads(of.plan.ranks(), {},
                           [&](auto& comm) { return support::coded_bits(comm, of); }) == 0);
  }
}
