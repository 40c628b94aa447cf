// SPDX-License-Identifier: Apache-2.0
/// The law <G x, y> = <x, G^T y> where ranks are devices, for all dtypes, and the bits of threads.
/// Each check is given results_of(ranks, work): it calls work(comm) on so many ranks and gives what
/// that returned, [rank]; and how large instances get, where there are not so many ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
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

struct products {
  double gathered_times_partials = 0;
  double parameters_times_gradients = 0;
  differences wrong;
};

/// Both collectives are enqueued, twice, before the first is waited for.
/// @param put put(comm, buffer) on the device, as long as what it returns lives
template <class Comm, class Buffers, class Put>
[[nodiscard]] products products_on(Comm& comm, Buffers mine, Put put) {
  auto const& plan = mine.of.plan;
  {
    auto shard = put(comm, mine.shard);
    auto replicas = put(comm, mine.replicas);
    auto in_one_piece = put(comm, mine.in_one_piece);
    auto partials = put(comm, mine.partials);
    auto gradients = put(comm, mine.gradients);
    for (auto turn = 0; turn < 2; ++turn) {
      fssdp::sparse_all_gather(comm, plan, shard.tensors(), replicas.tensors());
      fssdp::sparse_all_gather(comm, plan, shard.tensors(), in_one_piece.tensors());
      fssdp::sparse_reduce_scatter(comm, plan, partials.tensors(), gradients.tensors());
    }
    fssdp::synchronize(comm);
  }
  return {mine.gathered_times_partials(), mine.parameters_times_gradients(),
          mine.wrong_replicas() + mine.wrong_in_one_piece() + mine.wrong_gradients() +
              mine.wrong_inputs()};
}

/// @param first the seed of the first instance
template <class ResultsOf, class ProductsOf>
void check_transpose(int instances, std::uint64_t first, size_limits const& limits,
                     ResultsOf results_of, ProductsOf products_of) {
  gpu_double::reset({.only_device_memory = true});
  for_random_instances(
      instances,
      [&](random_instance const& of) {
        auto sum = products{};
        for (auto const& found :
             results_of(of.plan.ranks(), [&](auto& comm) { return products_of(comm, of); })) {
          sum.gathered_times_partials += found.gathered_times_partials;
          sum.parameters_times_gradients += found.parameters_times_gradients;
          sum.wrong += found.wrong;
        }
        REQUIRE(sum.wrong == 0);
        REQUIRE(sum.gathered_times_partials == sum.parameters_times_gradients);
      },
      limits, first);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

/// Replicas and partial gradients of bf16, and owners with floats, as types that the compiler knows.
template <class ResultsOf>
void check_transpose_on_devices(ResultsOf results_of, size_limits const& limits = few_devices) {
  check_transpose(some_instances / 2, 24'000'000, limits, results_of,
                  [](auto& comm, random_instance const& of) {
                    return products_on(comm, rank_buffers<fssdp::bf16, float>{of, comm.rank()},
                                       [](auto& on, auto& buffer) {
                                         return on_device{on, buffer};
                                       });
                  });
}
/// Of whatever dtypes: sums of small numbers are exact in all of the owners' here.
template <class ResultsOf>
void check_transpose_of_dtypes_on_devices(ResultsOf results_of,
                                          size_limits const& limits = few_devices) {
  auto first = std::uint64_t{40'000'000};
  for (auto const travels : dtypes_of_a_test())
    for (auto const master :
         {fssdp::dtype::fp32, fssdp::dtype::fp64, fssdp::dtype::bf16, fssdp::dtype::fp16}) {
      CAPTURE(fssdp::name_of(travels), fssdp::name_of(master));
      check_transpose(some_instances / 5, first, limits, results_of,
                      [&](auto& comm, random_instance const& of) {
                        return products_on(comm, any_rank_buffers{of, comm.rank(), travels, master},
                                           [](auto& on, auto& buffer) {
                                             return any_on_device{on, buffer};
                                           });
                      });
      first += 1'000'000;
    }
}

/// By any schedule, and in the order of the ranks.
template <class ResultsOf>
void check_bits_on_devices(ResultsOf results_of, size_limits const& limits = few_devices) {
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
      limits);
  auto const few = limits.ranks < 4;  // with which there may be no relays
  REQUIRE((few || rounds > 2));       // of what the law is about there is something
  REQUIRE((few || forwarded > 0));
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

}  // namespace support
