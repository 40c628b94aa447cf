// SPDX-License-Identifier: Apache-2.0
/// Experts that differ in size: collectives give what loops over the placement give, whatever plan,
/// codec, types and kind of memory; plans keep their rows, and what does not fit them is refused.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/collective/wire_bytes.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/plan_bytes.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/plan/simulate.hpp"
#include "support/communicator_archetype.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_instance.hpp"
#include "support/refusal.hpp"
#include "support/small_integers.hpp"

using fssdp::chunk_id;
using fssdp::expert_buffer;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::transfer_plan;
using support::random_instance;

namespace {

/// A random placement of whole experts, each with rows of its own.
struct sized_instance {
  random_instance of;
  transfer_plan plan;

  explicit sized_instance(std::uint64_t seed)
      : of{seed, {.ranks = 8, .experts = 20, .slices = 1}}, plan{with_random_rows(of.plan, seed)} {}

  static transfer_plan with_random_rows(transfer_plan const& plan, std::uint64_t seed) {
    auto draw = support::dice{seed + 1'000'000};
    auto rows = std::vector<std::size_t>(static_cast<std::size_t>(plan.experts()));
    auto const most = draw.chance(20) ? 600 : 7;
    for (auto& of_expert : rows)
      of_expert = static_cast<std::size_t>(draw.chance(15) ? 0 : draw.between(1, most));
    return plan.with_rows(std::move(rows));
  }
  [[nodiscard]] std::size_t elements(std::size_t k, expert_id expert) const {
    return of.elements[k] * plan.rows(expert);
  }
  /// The experts that a rank owns, in slot order.
  [[nodiscard]] std::vector<expert_id> owned(rank_id rank) const {
    auto experts = std::vector<expert_id>(plan.owned_count(rank));
    for (auto const expert : fssdp::first_n<expert_id>(plan.experts()))
      if (plan.owner(expert) == rank) experts[plan.owner_slot(expert)] = expert;
    return experts;
  }
};

[[nodiscard]] double parameter(expert_id expert, std::size_t k, std::size_t i) {
  return support::small_integer({1, expert.index(), k, i});
}
[[nodiscard]] double partial(rank_id rank, expert_id expert, std::size_t k, std::size_t i) {
  return support::small_integer({2, rank.index(), expert.index(), k, i});
}

/// Goes through the elements of a buffer whose slots are experts: visit(element, expert, k, i).
template <class Tensors, class Visit>
void for_each_element(sized_instance const& of, Tensors const& tensors,
                      std::span<expert_id const> experts, Visit visit) {
  for (std::size_t k = 0; k < tensors.size(); ++k)
    for (std::size_t slot = 0; slot < experts.size(); ++slot)
      for (std::size_t i = 0; i < of.elements(k, experts[slot]); ++i)
        visit(tensors[k][slot][i], experts[slot], k, i);
}

/// What is wrong on a rank after gathers to both kinds of replicas and a reduction.
template <class T, class Master>
[[nodiscard]] int wrong_on(thread_communicator& comm, sized_instance const& of) {
  auto const me = comm.rank();
  auto const& sizes = of.of.elements;
  auto const mine = of.owned(me);
  auto shard = fssdp::make_shard<Master>(of.plan, me, sizes);
  auto replicas = fssdp::make_replicas<T>(of.plan, me, sizes);
  auto copies = fssdp::make_partials<T>(of.plan, me, sizes);
  auto partials = fssdp::make_partials<T>(of.plan, me, sizes);
  auto gradients = fssdp::make_shard<Master>(of.plan, me, sizes);
  for_each_element(of, shard.tensors(), mine, [](auto& x, auto e, auto k, auto i) {
    x = Master{static_cast<float>(parameter(e, k, i))};
  });
  for_each_element(
      of, partials.tensors(), of.plan.materialized(me),
      [&](auto& y, auto e, auto k, auto i) { y = T{static_cast<float>(partial(me, e, k, i))}; });
  fssdp::sparse_all_gather(comm, of.plan, shard, replicas);
  fssdp::sparse_all_gather(comm, of.plan, shard, copies);
  fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients, {.scale = 0.5});
  auto wrong = 0;
  auto const right_copy = [&](auto& x, auto e, auto k, auto i) {
    if (static_cast<double>(static_cast<float>(x)) != parameter(e, k, i)) ++wrong;
  };
  for_each_element(of, replicas.tensors(), of.plan.remote(me), right_copy);
  for_each_element(of, copies.tensors(), of.plan.materialized(me), right_copy);
  for_each_element(of, gradients.tensors(), mine, [&](auto& g, auto e, auto k, auto i) {
    auto sum = 0.0;
    for (auto const rank : of.plan.where().holders(e)) sum += partial(rank, e, k, i);
    if (static_cast<double>(static_cast<float>(g)) != sum / 2) ++wrong;
  });
  return wrong;
}

/// Of coded links: all holders have the same bits, and they are near the parameters.
[[nodiscard]] int far_on(thread_communicator& comm, sized_instance const& of) {
  auto const me = comm.rank();
  auto const& sizes = of.of.elements;
  auto shard = fssdp::make_shard<float>(of.plan, me, sizes);
  auto copies = fssdp::make_partials<float>(of.plan, me, sizes);
  auto gradients = fssdp::make_shard<float>(of.plan, me, sizes);
  for_each_element(of, shard.tensors(), of.owned(me), [](auto& x, auto e, auto k, auto i) {
    x = static_cast<float>(parameter(e, k, i));
  });
  auto const links = fssdp::coded_links<fssdp::int8_codec>{.on = fssdp::link_class::all};
  fssdp::sparse_all_gather(comm, of.plan, shard, copies, links);
  auto wrong = 0;
  auto const near = [](double x, double y) { return std::abs(x - y) <= 0.01 * 20; };
  for_each_element(of, copies.tensors(), of.plan.materialized(me),
                   [&](auto& x, auto e, auto k, auto i) {
                     if (!near(static_cast<double>(x), parameter(e, k, i))) ++wrong;
                   });
  fssdp::sparse_reduce_scatter(comm, of.plan, copies, gradients, links);
  for_each_element(of, gradients.tensors(), of.owned(me), [&](auto& g, auto e, auto k, auto i) {
    auto const holders = static_cast<double>(of.plan.where().holders(e).size());
    if (std::abs(static_cast<double>(g) - holders * parameter(e, k, i)) > 0.5 * holders) ++wrong;
  });
  return wrong;
}

/// Two experts on two ranks, of 3 rows and of 1, held everywhere.
[[nodiscard]] transfer_plan three_and_one() {
  auto const layout = fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}}};
  return make_plan(layout, fssdp::everywhere{}(layout)).with_rows({3, 1});
}

}  // namespace

TEST_CASE("experts that differ in size are gathered and reduced as loops do it", "[collective]") {
  for (std::uint64_t seed = 0; seed < 5 + FSSDP_LAW_INSTANCES / 10; ++seed) {
    auto const of = sized_instance{seed};
    INFO("seed " << seed);
    auto const wrong = support::on_all_ranks(of.plan.ranks(), [&](thread_communicator& comm) {
      return wrong_on<float, float>(comm, of) + wrong_on<fssdp::bf16, float>(comm, of) +
             far_on(comm, of);
    });
    CHECK(wrong == std::vector<int>(wrong.size()));
  }
}

TEST_CASE("the bytes of experts that differ in size are counted, and what they take is enough",
          "[collective]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = sized_instance{seed};
    INFO("seed " << seed);
    auto const bytes = support::on_all_ranks(of.plan.ranks(), [&](thread_communicator& inner) {
      auto comm = fssdp::counting{inner};
      auto const shard = fssdp::make_shard<float>(of.plan, comm.rank(), of.of.elements);
      auto replicas = fssdp::make_replicas<float>(of.plan, comm.rank(), of.of.elements);
      fssdp::sparse_all_gather(comm, of.plan, shard, replicas);
      return comm.counts().bytes_sent;
    });
    CHECK(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}) ==
          fssdp::gathered_bytes<float>(of.plan, of.of.elements).total());
    for (auto const rank : fssdp::first_n<rank_id>(of.plan.ranks())) {
      auto const replicas = fssdp::make_replicas<float>(of.plan, rank, of.of.elements);
      auto elements = std::size_t{0};
      for (auto const& tensor : replicas.tensors())
        for (std::size_t slot = 0; slot < tensor.slots; ++slot) elements += tensor[slot].size();
      auto const use = fssdp::memory_required<float, float, float>(of.plan, rank, of.of.elements);
      CHECK(use.replicas >= elements * sizeof(float));
      CHECK(use.replicas <= replicas.bytes());
    }
  }
}

TEST_CASE("a plan keeps the rows of its experts", "[collective]") {
  auto const plan = three_and_one();
  CHECK(plan.rows(expert_id{0}) == 3);
  CHECK(plan.most_rows() == 3);
  CHECK(plan.hash_value() != three_and_one().with_rows({1, 3}).hash_value());
  CHECK(plan.hash_value() != plan.with_rows({}).hash_value());
  CHECK(plan != plan.with_rows({}));
  CHECK(plan == three_and_one());
  CHECK(rank_ordered(plan).rows(expert_id{1}) == 1);
  CHECK(plan.reduced_by(rank_ordered(plan)).with_rows({2, 2}).reduction().rows(expert_id{0}) == 2);
  CHECK_THROWS_AS(plan.reduced_by(rank_ordered(plan).with_rows({})), fssdp::argument_error);
  auto const layout = fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}}};
  CHECK(fssdp::plan_from_bytes(fssdp::plan_to_bytes(plan), layout) == plan);
  auto const span = plan.materialized_offsets(rank_id{1});
  CHECK(std::vector(span.begin(), span.end()) == std::vector<std::size_t>{0, 3, 4});
}

TEST_CASE("an expert of fewer rows takes its part of the time", "[collective]") {
  auto const topo =
      fssdp::topology{{.nodes = 1, .ranks = 2, .ports = {.inside_bytes_per_second = 1000}}};
  auto const layout = fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout), topo).with_rows({0, 1});
  CHECK(simulate(plan, 1000).seconds < 1.1);
  CHECK(simulate(plan, 1000).seconds >= 1.0);
  auto const small = make_plan(layout, fssdp::everywhere{}(layout), topo).with_rows({1, 4});
  CHECK(lower_bound(small, 4000).seconds == Approx(4.0));
  CHECK(simulate(small, 4000).transfers[0].released == Approx(1.0).epsilon(0.01));
}

TEST_CASE("buffers that do not have the rows of the plan are refused", "[collective]") {
  auto const plan = three_and_one();
  auto numbers = std::vector<float>(8);
  auto const offsets = std::vector<std::size_t>{0, 2};
  auto const two_rows = fssdp::expert_tensor<float>{
      .data = numbers.data(), .slots = 1, .elements = 1, .offsets = offsets.data()};
  auto const plain = fssdp::expert_tensor<float>{.data = numbers.data(), .slots = 1, .elements = 1};
  auto copies = fssdp::make_partials<float>(plan, rank_id{0}, 1);
  support::refuses([&](auto& comm) { fssdp::sparse_all_gather(comm, plan, two_rows, copies); },
                   "slot 0 of tensor 0 of from has 2 rows", "expected 3");
  support::refuses([&](auto& comm) { fssdp::sparse_all_gather(comm, plan, plain, copies); },
                   "from has no row offsets");
  support::refuses(
      [&](auto& comm) { fssdp::sparse_all_gather(comm, plan.with_rows({}), two_rows, copies); },
      "from has row offsets; expected none, as");
  auto const alone = fssdp::table_layout{{}, {rank_id{0}, rank_id{0}}};
  auto shard =
      fssdp::make_shard<float>(make_plan(alone, fssdp::everywhere{}(alone)).with_rows({2, 1}),
                               rank_id{0}, std::vector<std::size_t>{1});
  auto const bytes = fssdp::bytes_of(shard);
  CHECK(bytes[0][0].size() == 2 * sizeof(float));
  CHECK(bytes[0][1].data() == reinterpret_cast<std::byte*>(shard.tensors()[0][1].data()));
  auto comm = support::communicator_archetype{rank_id{0}};
  CHECK_THROWS_WITH(fssdp::reshard(comm, fssdp::reshard_plan{alone, alone}, shard),
                    "reshard: tensor 0 of shard has row offsets; expected none, as the plan is for "
                    "experts of equal size");
  CHECK_THROWS_AS(plan.with_rows({1}), fssdp::argument_error);
  CHECK_THROWS_AS(plan.with_rows({SIZE_MAX, SIZE_MAX}), fssdp::argument_error);
  auto const sliced = fssdp::table_layout{{.ranks = 1, .slices = 2}, {rank_id{0}, rank_id{0}}};
  CHECK_THROWS_AS(make_plan(sliced, fssdp::everywhere{}(sliced)).with_rows({1}),
                  fssdp::argument_error);
  CHECK_THROWS_AS(copies.resize(3), fssdp::argument_error);
}
