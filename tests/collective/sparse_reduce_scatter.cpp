// SPDX-License-Identifier: Apache-2.0
/// Guarantees of a reduction beside the adjoint law: order, rounding, options, types.
#include "fssdp/collective/sparse_reduce_scatter.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/any_buffer.hpp"
#include "support/communicator_archetype.hpp"
#include "support/differences.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::bf16;
using fssdp::dtype;
using fssdp::thread_communicator;
using support::any_buffer;
using support::random_instance;
using support::rank_buffers;

namespace {

[[nodiscard]] any_buffer rough_partials(random_instance const& of, fssdp::rank_id rank,
                                        dtype type) {
  auto partials = support::any_partials(of, rank, type);
  support::fill_roughly(partials, rank.index() + 1);
  return partials;
}

/// What all ranks own after a reduction of rough numbers: [rank].
[[nodiscard]] std::vector<any_buffer> reduced(random_instance const& of, dtype type, bool lends) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto const partials = rough_partials(of, comm.rank(), type);
    auto gradients = support::any_shard(of, comm.rank(), type);
    auto bare = support::exchange_only{comm};
    if (lends)
      fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients);
    else
      fssdp::sparse_reduce_scatter(bare, of.plan, partials, gradients);
    return gradients;
  });
}

/// The same by loops: holders in rank order, one rounding.
[[nodiscard]] std::vector<any_buffer> reduced_in_rank_order(random_instance const& of, dtype type) {
  auto partials = std::vector<any_buffer>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    partials.push_back(rough_partials(of, rank, type));
  auto all = std::vector<any_buffer>{};
  for (auto const owner : fssdp::first_n<fssdp::rank_id>(of.layout.ranks())) {
    auto& gradients = all.emplace_back(support::any_shard(of, owner, type));
    for (std::size_t k = 0; k < of.elements.size(); ++k)
      for (std::size_t slot = 0; auto const chunk : of.layout.owned(owner)) {
        auto const part = fssdp::slice_extent{of.elements[k], chunk.slice, of.layout.slices()};
        auto sum = std::vector<double>{};
        for (auto const rank : of.where.holders(chunk.expert)) {
          auto const from = fssdp::transfer_plan::slot_in(of.plan.materialized(rank), chunk.expert);
          auto const partial = support::read(partials[rank.index()].tensors()[k], from);
          for (std::size_t i = 0; i < part.elements; ++i)
            if (sum.size() <= i)
              sum.push_back(partial[part.first + i]);
            else
              sum[i] =
                  support::rounded(fssdp::accumulator_of(type), sum[i] + partial[part.first + i]);
        }
        support::write(gradients.tensors()[k], slot++, sum);
      }
  }
  return all;
}

}  // namespace

TEST_CASE("with a direct plan the bits are those of a sum in rank order") {
  for (auto const type : support::dtypes_of_a_test()) {
    CAPTURE(fssdp::name_of(type));
    support::for_random_instances(support::some_instances, [&](random_instance of) {
      of.plan = make_plan(of.layout, of.where);
      auto const expected = reduced_in_rank_order(of, type);
      REQUIRE(reduced(of, type, true) == expected);
      REQUIRE(reduced(of, type, false) == expected);
    });
  }
}

TEST_CASE("equal plans give equal bits, every time and over every communicator") {
  for (auto const type : support::dtypes_of_a_test()) {
    CAPTURE(fssdp::name_of(type));
    support::for_random_instances(support::some_instances, [&](random_instance of) {
      of.plan = make_plan(of.layout, of.where, of.topo);
      auto const once = reduced(of, type, true);
      REQUIRE(reduced(of, type, true) == once);
      REQUIRE(reduced(of, type, false) == once);
    });
  }
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
