// SPDX-License-Identifier: Apache-2.0
/// Gathers and reductions over c10d leave the bits that they leave between threads: in memory of the
/// host, and with torch's operators, the CPU being the device.
#include <cstdint>
#include <tuple>
#include <vector>

#include "c10d/threads.hpp"
#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/c10d.hpp"
#include "support/collective_bits.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"
#include "support/scheduled_plan.hpp"

using c10d_tests::group_maker;
using c10d_tests::results_of;
using fssdp::c10d_communicator;
using fssdp::c10d_device_communicator;

namespace {

constexpr auto plans = std::uint64_t{support::law_instances / 500 + 6};
constexpr auto few_ranks = support::size_limits{.ranks = 5, .nodes = 3, .experts = 16};

[[nodiscard]] support::random_instance instance(std::uint64_t seed) {
  return seed % 2 == 0 ? support::relayed_instance(seed, few_ranks)
                       : support::random_instance{seed, few_ranks};
}

/// Both are tried by `try_one(instance)` on several instances.
template <class Try>
void for_plans(Try try_one) {
  for (std::uint64_t seed = 1; seed <= plans; ++seed) {
    CAPTURE(seed);
    try_one(instance(seed));
  }
}

[[nodiscard]] auto bits_of_threads(support::random_instance const& of) {
  return support::on_all_ranks(of.plan.ranks(), [&](fssdp::thread_communicator& comm) {
    return support::collective_bits(comm, of);
  });
}

/// What replicas and partial gradients are, and what their owners have.
template <class Wire, class Master = Wire>
struct travels_as {
  using wire = Wire;
  using master = Master;
};
using types_of_torch =
    std::tuple<travels_as<float>, travels_as<double>, travels_as<fssdp::bf16>,
               travels_as<fssdp::bf16, float>, travels_as<fssdp::fp16, float>
#if __has_include(<c10/util/Float8_e4m3fn.h>)
               ,
               travels_as<fssdp::fp8_e4m3, float>, travels_as<fssdp::fp8_e5m2, fssdp::bf16>
#endif
               >;

}  // namespace

TEST_CASE("c10d and threads get the same bits") {
  for_plans([](support::random_instance const& of) {
    auto const found = results_of(of.plan.ranks(), [&](group_maker make) {
      auto comm = c10d_communicator{make()};
      return support::collective_bits(comm, of);
    });
    REQUIRE(found == bits_of_threads(of));
  });
}

TEST_CASE("torch's operators and threads get the same bits") {
  for_plans([](support::random_instance const& of) {
    auto const found = results_of(of.plan.ranks(), [&](group_maker make) {
      auto comm = c10d_device_communicator{make(), c10::kCPU};
      return support::collective_bits(comm, of);
    });
    REQUIRE(found == bits_of_threads(of));
  });
}

TEMPLATE_LIST_TEST_CASE("a reduction by torch's operators is the transpose of a gather", "",
                        types_of_torch) {
  for_plans([](support::random_instance const& of) {
    auto const wrong = results_of(of.plan.ranks(), [&](group_maker make) {
      auto comm = c10d_device_communicator{make(), c10::kCPU};
      auto mine = support::rank_buffers<typename TestType::wire, typename TestType::master>{
          of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece);
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients, {.scale = 0.5});
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients,
                                   {.scale = 0.5, .into = fssdp::write_mode::accumulate});
      fssdp::synchronize(comm);
      return mine.wrong_replicas() + mine.wrong_in_one_piece() + mine.wrong_gradients() +
             mine.wrong_inputs();
    });
    for (auto const& of_rank : wrong) REQUIRE(of_rank == 0);
  });
}

TEST_CASE("with device memory, host values are gathered and plans are agreed on") {
  auto const right = results_of(3, [](group_maker make) {
    auto comm = c10d_device_communicator{make(), c10::kCPU, {.make_group = make}};
    auto other = comm.duplicate();
    auto const me = comm.rank().value();
    auto count = fssdp::all_reduce(comm, std::vector{1, me}) == std::vector{3, 3} ? 1 : 0;
    other.agree(7);
    other.agree(7);
    other.announce(std::vector<std::uint64_t>{3, 4, 5});
    for (auto const plan : {4U, 7U, 3U}) count += other.has_agreed(plan) ? 1 : 0;
    count += other.has_agreed(6) ? 1 : 0;
    try {
      comm.agree(me == 2 ? 8 : 9);
    } catch (fssdp::ranks_disagree const& error) {
      count += error.failed_rank().value() == (me == 2 ? 0 : 2) ? 1 : 0;
    }
    count += comm.has_failed() ? 1 : 0;
    return count;
  });
  REQUIRE(right == std::vector{6, 6, 6});
}
