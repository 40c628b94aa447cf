// SPDX-License-Identifier: Apache-2.0
/// What a reduction promises beside the adjoint law: order, rounding, options, types.
#include "fssdp/collective/sparse_reduce_scatter.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/communicator_archetype.hpp"
#include "support/differences.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::bf16;
using fssdp::thread_communicator;
using support::random_instance;
using support::rank_buffers;

namespace {

/// Everything that all ranks own after a reduction of rough numbers, as bits: [rank].
template <class T>
using all_bits = std::vector<std::vector<std::uint64_t>>;

template <class T>
[[nodiscard]] fssdp::expert_buffer<T> rough_partials(random_instance const& of,
                                                     fssdp::rank_id rank) {
  auto partials = fssdp::make_partials<T>(of.plan, rank, of.elements);
  support::fill_roughly(partials, rank.index() + 1);
  return partials;
}

template <class T>
[[nodiscard]] all_bits<T> reduced_bits(random_instance const& of, bool lends) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto const partials = rough_partials<T>(of, comm.rank());
    auto gradients = fssdp::make_shard<T>(of.layout, comm.rank(), of.elements);
    auto bare = support::exchange_only{comm};
    if (lends)
      fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients);
    else
      fssdp::sparse_reduce_scatter(bare, of.plan, partials, gradients);
    return support::bits(gradients);
  });
}

/// The same by loops: holders in rank order, one rounding.
template <class T>
[[nodiscard]] all_bits<T> rank_ordered_bits(random_instance const& of) {
  auto partials = std::vector<fssdp::expert_buffer<T>>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    partials.push_back(rough_partials<T>(of, rank));
  auto result = all_bits<T>{};
  for (auto const owner : fssdp::first_n<fssdp::rank_id>(of.layout.ranks())) {
    auto gradients = fssdp::make_shard<T>(of.layout, owner, of.elements);
    support::for_each_element(
        gradients, of.layout.owned(owner), of.elements, of.layout.slices(),
        [&](auto expert, std::size_t k, std::size_t i, T& value) {
          auto sum = fssdp::accumulator_t<T>{0};
          auto first = true;
          for (auto const rank : of.where.holders(expert)) {
            auto const slot = fssdp::transfer_plan::slot_in(of.plan.materialized(rank), expert);
            auto const part =
                static_cast<fssdp::accumulator_t<T>>(partials[rank.index()].tensors()[k][slot][i]);
            sum = first ? part : sum + part;
            first = false;
          }
          value = static_cast<T>(sum);
        });
    result.push_back(support::bits(gradients));
  }
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("with a direct plan the bits are those of a sum in rank order", "", float,
                   double, bf16) {
  support::for_random_instances(support::some_instances, [](random_instance of) {
    of.plan = make_plan(of.layout, of.where);
    auto const expected = rank_ordered_bits<TestType>(of);
    REQUIRE(reduced_bits<TestType>(of, true) == expected);
    REQUIRE(reduced_bits<TestType>(of, false) == expected);
  });
}

TEMPLATE_TEST_CASE("equal plans give equal bits, every time and over every wire", "", float, double,
                   bf16) {
  support::for_random_instances(support::some_instances, [](random_instance of) {
    of.plan = make_plan(of.layout, of.where, of.topo);
    auto const once = reduced_bits<TestType>(of, true);
    REQUIRE(reduced_bits<TestType>(of, true) == once);
    REQUIRE(reduced_bits<TestType>(of, false) == once);
  });
}

TEST_CASE("the sum is scaled once, and written or added") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = rank_buffers<double>{of, comm.rank()};
      auto scratch = fssdp::scratch_memory{};
      auto const before = rank_buffers<double>::untouched;
      auto count = support::differences{};
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients,
                                   {.scale = 0.25, .scratch = &scratch});
      count += mine.wrong_gradients(0.25);
      mine.clear_results();
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients,
                                   {.scale = 0.5, .into = fssdp::write_mode::accumulate});
      count += mine.wrong_gradients(0.5, before);
      auto bare = support::exchange_only{comm};
      mine.clear_results();
      fssdp::sparse_reduce_scatter(
          bare, of.plan, mine.partials, mine.gradients,
          {.scale = -2, .into = fssdp::write_mode::accumulate, .scratch = &scratch});
      count += mine.wrong_gradients(-2, before);
      return count + mine.wrong_inputs();
    });
    REQUIRE(support::total(wrong) == 0);
  });
}

TEST_CASE("bf16 partials become fp32 gradients, and fp32 partials bf16 gradients") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto narrow = rank_buffers<bf16, float>{of, comm.rank()};
      auto wide = rank_buffers<float, bf16>{of, comm.rank()};
      fssdp::sparse_reduce_scatter(comm, of.plan, narrow.partials, narrow.gradients);
      fssdp::sparse_reduce_scatter(comm, of.plan, wide.partials, wide.gradients);
      return narrow.wrong_gradients() + wide.wrong_gradients();
    });
    REQUIRE(support::total(wrong) == 0);
  });
}

TEST_CASE("bf16: 256 and eight ones make 264, through every hop of a chain") {
  constexpr auto ranks = 9;
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = ranks}};
  auto const where = fssdp::everywhere{}(layout);
  for (auto const nodes : {1, 3, 9}) {
    CAPTURE(nodes);
    auto const plan = make_plan(layout, where, fssdp::topology{{.nodes = nodes, .ranks = ranks}});
    auto const sums = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
      auto partials = fssdp::make_partials<bf16>(plan, comm.rank(), 1);
      auto gradients = fssdp::make_shard<bf16>(layout, comm.rank(), 1);
      // the large one sits farthest from the owner, so that every sum on the way is above 256
      partials.tensors()[0][0][0] = bf16{comm.rank().value() == ranks - 1 ? 256.0F : 1.0F};
      fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
      return comm.rank().value() == 0 ? static_cast<float>(gradients.tensors()[0][0][0]) : 0.0F;
    });
    REQUIRE(sums[0] == 264.0F);
  }
}

TEST_CASE("an expert that only its owner holds has its own partial for gradient") {
  auto const layout = fssdp::block_layout{{.experts = 3, .ranks = 2}};
  auto const plan = make_plan(layout, fssdp::placement{layout});
  auto const got = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto partials = fssdp::make_partials<float>(plan, comm.rank(), 1);
    auto gradients = fssdp::make_shard<float>(layout, comm.rank(), 1);
    auto value = static_cast<float>(10 * comm.rank().value());
    for (std::size_t slot = 0; slot < partials.slots(); ++slot)
      partials.tensors()[0][slot][0] = ++value;
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients, {.scale = 2});
    auto all = std::vector<float>{};
    for (std::size_t slot = 0; slot < gradients.slots(); ++slot)
      all.push_back(gradients.tensors()[0][slot][0]);
    return all;
  });
  REQUIRE(got[0] == std::vector{2.0F, 4.0F});
  REQUIRE(got[1] == std::vector{22.0F});
}
