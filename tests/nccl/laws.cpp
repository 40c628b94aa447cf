// SPDX-License-Identifier: Apache-2.0
/// The law <G x, y> = <x, G^T y> on devices, for all types, and the same bits as between threads.
#include "support/laws.hpp"
#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "nccl/devices.hpp"
#include "support/collective_bits.hpp"
#include "support/device_bits.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::bf16;
using fssdp::fp16;
using fssdp::nccl_communicator;
using support::random_instance;

namespace {

constexpr auto few_ranks = support::size_limits{.ranks = 6, .nodes = 3, .experts = 16};

struct products {
  double gathered_times_partials = 0;
  double parameters_times_gradients = 0;
  int wrong = 0;
};

/// Both verbs are enqueued, twice, before the first is waited for.
template <class T, class Master>
[[nodiscard]] products products_on(nccl_communicator& comm, random_instance const& of) {
  auto mine = support::rank_buffers<T, Master>{of, comm.rank()};
  {
    auto const shard = support::on_device{comm, mine.shard};
    auto replicas = support::on_device{comm, mine.replicas};
    auto in_one_piece = support::on_device{comm, mine.in_one_piece};
    auto const partials = support::on_device{comm, mine.partials};
    auto gradients = support::on_device{comm, mine.gradients};
    for (auto turn = 0; turn < 2; ++turn) {
      fssdp::sparse_all_gather(comm, of.plan, shard, replicas);
      fssdp::sparse_all_gather(comm, of.plan, shard, in_one_piece);
      fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients);
    }
    fssdp::synchronize(comm);
  }
  return {mine.gathered_times_partials(), mine.parameters_times_gradients(),
          mine.wrong_replicas() + mine.wrong_in_one_piece() + mine.wrong_gradients() +
              mine.wrong_inputs()};
}

template <class T, class Master = T>
struct travels_as {
  using wire = T;
  using master = Master;
};

}  // namespace

TEMPLATE_TEST_CASE("<G x, y> = <x, G^T y>, exactly, on devices", "", (travels_as<float>),
                   (travels_as<double>), (travels_as<bf16>), (travels_as<fp16>),
                   (travels_as<bf16, float>), (travels_as<fp16, float>),
                   (travels_as<fssdp::fp8_e4m3, float>)) {
  using wire = typename TestType::wire;
  using master = typename TestType::master;
  gpu_double::reset({.only_device_memory = true});
  support::for_random_instances(
      support::some_instances / 2,
      [](random_instance const& of) {
        auto sum = products{};
        for (auto const& found : nccl_tests::results_of(
                 {.ranks = of.plan.ranks()},
                 [&](nccl_communicator& comm) { return products_on<wire, master>(comm, of); })) {
          sum.gathered_times_partials += found.gathered_times_partials;
          sum.parameters_times_gradients += found.parameters_times_gradients;
          sum.wrong += found.wrong;
        }
        REQUIRE(sum.wrong == 0);
        REQUIRE(sum.gathered_times_partials == sum.parameters_times_gradients);
      },
      few_ranks, (sizeof(wire) * 10 + sizeof(master)) * 1'000'000);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("devices give the bits that threads give, by any schedule and in rank order") {
  gpu_double::reset({.only_device_memory = true});
  auto rounds = 0;
  auto forwarded = std::size_t{0};
  support::for_random_instances(
      support::some_instances,
      [&](random_instance const& any) {
        for (auto const ordered : {false, true}) {
          auto of = any;
          if (ordered) of.plan = of.plan.reduced_by(rank_ordered(of.plan));
          rounds = std::max(rounds, of.plan.reduction().rounds());
          for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.plan.ranks()))
            forwarded += of.plan.reduction().forwarded(rank).size();
          auto const ranks = of.plan.ranks();
          auto const here = support::on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
            return support::collective_bits(comm, of);
          });
          auto const there = nccl_tests::results_of({.ranks = ranks}, [&](nccl_communicator& comm) {
            return support::device_bits(comm, of);
          });
          REQUIRE(here == there);
        }
      },
      few_ranks);
  REQUIRE(rounds > 2);  // of what the law is about there is something
  REQUIRE(forwarded > 0);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
