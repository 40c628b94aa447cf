// SPDX-License-Identifier: Apache-2.0
/// The law <G x, y> = <x, G^T y> where ranks are devices, for all types, and the bits of threads.
/// Each check is given results_of(ranks, work): it calls work(comm) on so many ranks and gives what
/// that returned, [rank].
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "gpu_double/gpu_double.hpp"
#include "support/collective_bits.hpp"
#include "support/device_bits.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"
#include "support/types.hpp"

namespace support {

inline constexpr auto few_devices = size_limits{.ranks = 6, .nodes = 3, .experts = 16};

/// What replicas and partial gradients are, and what their owners have.
template <class T, class Master = T>
struct travels_as {
  using wire = T;
  using master = Master;
};
using bf16_of_floats = travels_as<fssdp::bf16, float>;
using types_on_the_way = std::tuple<TYPES_OF_A_TEST(
    travels_as<float>, bf16_of_floats, travels_as<double>, travels_as<fssdp::bf16>,
    travels_as<fssdp::fp16>, travels_as<fssdp::fp16, float>, travels_as<fssdp::fp8_e4m3, float>,
    travels_as<fssdp::fp8_e5m2, fssdp::bf16>)>;

struct products {
  double gathered_times_partials = 0;
  double parameters_times_gradients = 0;
  differences wrong;
};

/// Both verbs are enqueued, twice, before the first is waited for.
template <class Types, class Comm>
[[nodiscard]] products products_on(Comm& comm, random_instance const& of) {
  auto mine = rank_buffers<typename Types::wire, typename Types::master>{of, comm.rank()};
  {
    auto const shard = on_device{comm, mine.shard};
    auto replicas = on_device{comm, mine.replicas};
    auto in_one_piece = on_device{comm, mine.in_one_piece};
    auto const partials = on_device{comm, mine.partials};
    auto gradients = on_device{comm, mine.gradients};
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

template <class Types, class ResultsOf>
void check_transpose_on_devices(ResultsOf results_of) {
  gpu_double::reset({.only_device_memory = true});
  constexpr auto bytes = sizeof(typename Types::wire) * 10 + sizeof(typename Types::master);
  for_random_instances(
      some_instances / 2,
      [&](random_instance const& of) {
        auto sum = products{};
        for (auto const& found : results_of(
                 of.plan.ranks(), [&](auto& comm) { return products_on<Types>(comm, of); })) {
          sum.gathered_times_partials += found.gathered_times_partials;
          sum.parameters_times_gradients += found.parameters_times_gradients;
          sum.wrong += found.wrong;
        }
        REQUIRE(sum.wrong == 0);
        REQUIRE(sum.gathered_times_partials == sum.parameters_times_gradients);
      },
      few_devices, bytes * 1'000'000);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

/// By any schedule, and in the order of the ranks.
template <class ResultsOf>
void check_bits_on_devices(ResultsOf results_of) {
  gpu_double::reset({.only_device_memory = true});
  auto rounds = 0;
  auto forwarded = std::size_t{0};
  for_random_instances(
      some_instances,
      [&](random_instance const& any) {
        for (auto const ordered : {false, true}) {
          auto of = any;
          if (ordered) of.plan = of.plan.reduced_by(rank_ordered(of.plan));
          rounds = std::max(rounds, of.plan.reduction().rounds());
          for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.plan.ranks()))
            forwarded += of.plan.reduction().forwarded(rank).size();
          auto const ranks = of.plan.ranks();
          auto const here = on_all_ranks(
              ranks, [&](fssdp::thread_communicator& comm) { return collective_bits(comm, of); });
          auto const there = results_of(ranks, [&](auto& comm) { return device_bits(comm, of); });
          REQUIRE(here == there);
        }
      },
      few_devices);
  REQUIRE(rounds > 2);  // of what the law is about there is something
  REQUIRE(forwarded > 0);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

}  // namespace support
