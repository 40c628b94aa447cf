// SPDX-License-Identifier: Apache-2.0
/// Transfers between any two distributions: every slot of the target has what some rank had, parts
/// enter a node once or go straight from owners, and what cannot be done is refused by name.
#include "fssdp/collective/transfer_between.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/plan/verify.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "support/any_buffer.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_distribution.hpp"
#include "support/refusal.hpp"
#include "support/small_integers.hpp"

using fssdp::chunk_id;
using fssdp::distribution;
using fssdp::expert_buffer;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::redistribution;
using fssdp::slice_id;
using fssdp::thread_communicator;

namespace {

struct random_transfer {
  fssdp::topology topo;
  std::vector<std::size_t> elements;
  distribution from;
  distribution to;
  redistribution plan;

  explicit random_transfer(std::uint64_t seed) : random_transfer{support::dice{seed}} {}

 private:
  explicit random_transfer(support::dice draw) : random_transfer{draw, draw.between(1, 8)} {}
  random_transfer(support::dice& draw, int experts)
      : topo{{.nodes = draw.between(1, 3), .ranks = draw.between(3, 8)}},
        elements{some_sizes(draw)},
        from{support::random_distribution(draw, experts, topo.ranks(), true)},
        to{support::random_distribution(draw, experts, topo.ranks(), false)},
        plan{from,
             to,
             elements,
             topo,
             {.schedule = {.least_bytes = static_cast<std::size_t>(draw.chance(50) ? 64 : 1024)}}} {
  }
  static std::vector<std::size_t> some_sizes(support::dice& draw) {
    auto sizes = std::vector<std::size_t>(static_cast<std::size_t>(draw.between(1, 3)));
    for (auto& size : sizes)
      size =
          static_cast<std::size_t>(draw.chance(30) ? draw.between(1, 3000) : draw.between(1, 12));
    if (sizes.size() > 1 && draw.chance(50)) sizes[1] = sizes[0];
    return sizes;
  }
};

[[nodiscard]] float source_value(expert_id expert, std::size_t k, std::size_t i) {
  return static_cast<float>(support::small_integer({expert.index(), k, i}));
}

[[nodiscard]] std::vector<std::size_t> slice_sizes_of(random_transfer const& of, int slices) {
  return fssdp::slice_sizes(of.elements, slices);
}

/// Calls visit(element, expert, k, i) for all that the slots of a buffer have, without padding.
template <class Buffer, class Visit>
void for_each_element(random_transfer const& of, distribution const& where, rank_id rank,
                      Buffer& buffer, Visit visit) {
  auto const slots = where.slots(rank);
  for (std::size_t k = 0; k < of.elements.size(); ++k)
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      auto const part = fssdp::slice_extent{of.elements[k], slots[slot].slice, where.slices()};
      for (std::size_t i = 0; i < part.elements; ++i)
        visit(buffer.tensors()[k][slot][i], slots[slot].expert, k, part.first + i);
    }
}

/// How many elements of the target are wrong on a rank.
template <class T, class Communicator>
[[nodiscard]] int wrong_on(Communicator& comm, random_transfer const& of) {
  auto const me = comm.rank();
  auto from = expert_buffer<float>{of.from.slots(me).size(), slice_sizes_of(of, of.from.slices())};
  auto to = expert_buffer<T>{of.to.slots(me).size(), slice_sizes_of(of, of.to.slices())};
  for_each_element(of, of.from, me, from,
                   [](auto& x, auto e, auto k, auto i) { x = source_value(e, k, i); });
  transfer_between(comm, of.plan, from, to);
  synchronize(comm);
  auto wrong = 0;
  for_each_element(of, of.to, me, to, [&](auto& x, auto e, auto k, auto i) {
    if (static_cast<float>(x) != source_value(e, k, i)) ++wrong;
  });
  return wrong;
}

/// The same where tensors have types of their own.
template <class Communicator>
[[nodiscard]] int wrong_by_types(Communicator& comm, random_transfer const& of,
                                 std::vector<fssdp::dtype> const& from_types,
                                 std::vector<fssdp::dtype> const& to_types) {
  auto const me = comm.rank();
  auto memory = std::vector<support::any_buffer>{};
  auto const make = [&](distribution const& where, std::vector<fssdp::dtype> const& types) {
    auto const sizes = slice_sizes_of(of, where.slices());
    auto tensors = std::vector<fssdp::any_tensor>{};
    for (std::size_t k = 0; k < types.size(); ++k) {
      memory.emplace_back(types[k], where.slots(me).size(), std::span{&sizes[k], 1});
      tensors.push_back(memory.back().tensors()[0]);
    }
    return tensors;
  };
  auto const from = make(of.from, from_types);
  auto const to = make(of.to, to_types);
  auto const values_of = [&](distribution const& where, std::size_t k, std::size_t slot) {
    auto const chunk = where.slots(me)[slot];
    auto const part = fssdp::slice_extent{of.elements[k], chunk.slice, where.slices()};
    auto values = std::vector<double>(part.elements);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = source_value(chunk.expert, k, part.first + i);
    return values;
  };
  for (std::size_t k = 0; k < from.size(); ++k)
    for (std::size_t slot = 0; slot < from[k].slots; ++slot)
      support::write(from[k], slot, values_of(of.from, k, slot));
  transfer_between(comm, of.plan, from, to);
  auto wrong = 0;
  for (std::size_t k = 0; k < to.size(); ++k)
    for (std::size_t slot = 0; slot < to[k].slots; ++slot) {
      auto const expected = values_of(of.to, k, slot);
      auto found = support::read(to[k], slot);
      found.resize(expected.size());  // without padding
      if (found != expected) ++wrong;
    }
  return wrong;
}

[[nodiscard]] bool is_right(std::vector<int> const& wrong) {
  return std::ranges::all_of(wrong, [](int count) { return count == 0; });
}

/// Whether tensors of some size all go straight from their owners.
[[nodiscard]] bool has_straight_plan(redistribution const& plan) {
  return std::ranges::any_of(plan.classes(), [](fssdp::detail::size_class const& one) {
    return std::ranges::any_of(one.steps, [](fssdp::detail::part_step const& step) {
      return std::ranges::all_of(step.plan.transfers(), [&](fssdp::transfer const& t) {
        return t.source == step.plan.owner(t.chunk);
      });
    });
  });
}

}  // namespace

TEST_CASE("every slot of the target has what the source had, in its type", "[collective]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_transfer{seed};
    INFO("seed " << seed);
    for (auto const& one : of.plan.classes())
      for (auto const& step : one.steps) CHECK_NOTHROW(verify(step.plan));
    auto const wrong = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& comm) {
      return wrong_on<float>(comm, of) + wrong_on<fssdp::bf16>(comm, of);
    });
    CHECK(is_right(wrong));
  }
}

TEST_CASE("tensors whose types are known at run time only each have types of their own",
          "[collective]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_transfer{seed};
    INFO("seed " << seed);
    auto draw = support::dice{seed};
    auto from_types = std::vector<fssdp::dtype>{};
    auto to_types = std::vector<fssdp::dtype>{};
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      from_types.push_back(fssdp::all_dtypes[static_cast<std::size_t>(draw.between(0, 2))]);
      to_types.push_back(fssdp::all_dtypes[static_cast<std::size_t>(draw.between(0, 2))]);
    }
    auto const wrong = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& comm) {
      return wrong_by_types(comm, of, from_types, to_types);
    });
    CHECK(is_right(wrong));
  }
}

TEST_CASE("a buffer of an element type goes with tensors of any", "[collective]") {
  auto const blocks = distribution{fssdp::block_layout{{.experts = 4, .ranks = 2}}};
  auto const cyclic = distribution{fssdp::cyclic_layout{{.experts = 4, .ranks = 2}}};
  auto const sizes = std::vector<std::size_t>{3};
  auto const plan = redistribution{blocks, cyclic, sizes};
  auto const found = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto from = expert_buffer<float>{2, sizes};
    auto const first = static_cast<float>(2 * comm.rank().value());
    for (std::size_t slot = 0; slot < 2; ++slot)
      std::ranges::fill(from.tensors()[0][slot], first + static_cast<float>(slot));
    auto to = support::any_buffer{fssdp::dtype::bf16, 2, sizes};
    transfer_between(comm, plan, from, to.tensors());
    return std::vector{support::read(to.tensors()[0], 0)[2], support::read(to.tensors()[0], 1)[0]};
  });
  CHECK(found == std::vector<std::vector<double>>{{0, 2}, {1, 3}});
  auto none = fssdp::any_tensor{.type = static_cast<fssdp::dtype>(99)};
  support::refuses([&](auto& comm) { transfer_between(comm, plan, none, none); }, "99");
}

TEST_CASE("transfers cross streams", "[collective]") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    auto const of = random_transfer{seed};
    INFO("seed " << seed);
    auto const wrong = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& inner) {
      auto stream = fssdp::host_stream{};
      auto comm = on_stream(inner, stream);
      return wrong_on<float>(comm, of);
    });
    CHECK(is_right(wrong));
  }
}

TEST_CASE("a transfer sends the bytes that it says, into a node once or straight from owners",
          "[collective]") {
  auto const instances = std::uint64_t{5 + FSSDP_LAW_INSTANCES / 5};
  auto once = std::uint64_t{0};
  for (std::uint64_t seed = 0; seed < instances; ++seed) {
    auto const of = random_transfer{seed};
    INFO("seed " << seed);
    auto const sent = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& inner) {
      auto comm = fssdp::counting{inner};
      (void)wrong_on<float>(comm, of);
      return comm.counts().bytes_sent;
    });
    CHECK(std::accumulate(sent.begin(), sent.end(), std::uint64_t{0}) == of.plan.bytes().total);
    auto entering = std::uint64_t{0};  // by loops over nodes: what a node wants and has not got
    for (std::size_t k = 0; k < of.elements.size(); ++k)
      for (auto const node : fssdp::first_n<fssdp::node_id>(of.topo.nodes()))
        for (auto const e : fssdp::first_n<expert_id>(of.from.experts()))
          for (std::size_t i = 0; i < of.elements[k]; ++i) {
            auto const is_there = [&](distribution const& where) {
              for (auto const slice : fssdp::first_n<slice_id>(where.slices())) {
                auto const part = fssdp::slice_extent{of.elements[k], slice, where.slices()};
                if (i < part.first || i >= part.first + part.elements) continue;
                for (auto const& place : where.places({e, slice}))
                  if (of.topo.node(place.rank) == node) return true;
              }
              return false;
            };
            if (is_there(of.to) && !is_there(of.from)) entering += sizeof(float);
          }
    auto const between = of.plan.bytes().between_nodes;
    CHECK(between >= entering);
    CHECK((between == entering || has_straight_plan(of.plan)));
    once += between == entering ? 1U : 0U;
  }
  CHECK(2 * once > instances);
}

TEST_CASE("no way to transfer is quicker than the bound", "[collective]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_transfer{seed};
    INFO("seed " << seed);
    CHECK(of.plan.simulated_seconds() >= of.plan.bound_seconds());
  }
}

TEST_CASE("a trainer's shards become a rollout's replicas within a tenth of the bound",
          "[collective]") {
  for (auto const nodes : {2, 4, 16}) {
    auto const trainers = 4 * nodes;
    auto const ranks = 8 * nodes;
    auto const topo = fssdp::topology{{.nodes = nodes, .ranks = ranks}};
    auto members = std::vector<rank_id>{};  // half of the ranks of each node train
    auto others = members;
    for (int rank = 0; rank < ranks; ++rank)
      (rank % 8 < 4 ? members : others).push_back(rank_id{rank});
    auto const experts = 4 * trainers;
    auto const shards =
        distribution{fssdp::block_layout{{.experts = experts, .ranks = trainers, .slices = 2}}};
    auto where = fssdp::placement{fssdp::cyclic_layout{{.experts = experts, .ranks = trainers}}};
    for (int e = 0; e < experts; e += 4)  // the busiest have a second replica
      where.add(expert_id{e}, rank_id{(e / 4 + trainers / 2 + 1) % trainers});
    INFO(nodes << " nodes");
    auto const plan = redistribution{shards.on(members, ranks),
                                     distribution{where}.on(others, ranks),
                                     std::vector<std::size_t>{40'000'000},
                                     topo,
                                     {.element_bytes = 2}};
    CHECK(plan.simulated_seconds() <= 1.1 * plan.bound_seconds());
  }
}

TEST_CASE("a distribution says where its chunks lie", "[collective]") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const on_three = distribution{layout}.on(std::vector{rank_id{2}, rank_id{0}}, 3);
  CHECK(on_three.ranks() == 3);
  CHECK(on_three.slots(rank_id{1}).empty());
  REQUIRE(on_three.places(expert_id{3}).size() == 1);
  CHECK(on_three.places(expert_id{3})[0] == distribution::place{rank_id{0}, 1});
  CHECK_THROWS_WITH(distribution(1, 1, {{chunk_id{expert_id{1}}}}),
                    "distribution: slot 0 of rank 0 has expert 1; expected 0 to 0");
  CHECK_THROWS_WITH(distribution(2, 1, {{expert_id{1}, expert_id{1}}}),
                    "distribution: rank 0 has slice 0 of expert 1 twice; expected it once");
  CHECK_THROWS_AS(distribution{layout}.on(std::vector{rank_id{0}}, 2), fssdp::argument_error);
  CHECK_THROWS_AS(distribution{layout}.on(std::vector{rank_id{0}, rank_id{0}}, 2),
                  fssdp::argument_error);
  CHECK_THROWS_AS(distribution{layout}.on(std::vector{rank_id{0}, rank_id{2}}, 2),
                  fssdp::argument_error);
}

TEST_CASE("what the source lacks is named, and buffers that do not fit are refused",
          "[collective]") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2, .slices = 2}};
  auto const all = distribution{layout};
  auto lists = std::vector<std::vector<chunk_id>>{};
  for (auto const rank : fssdp::first_n<rank_id>(2))
    lists.emplace_back(all.slots(rank).begin(), all.slots(rank).end());
  std::erase(lists[1], chunk_id{expert_id{2}, slice_id{1}});
  auto const holed = distribution{4, 2, lists};
  auto const whole = distribution{fssdp::cyclic_layout{{.experts = 4, .ranks = 2}}};
  auto const sizes = std::vector<std::size_t>{10};
  CHECK_THROWS_WITH(redistribution(holed, whole, sizes),
                    "redistribution: nobody has elements 5 to 10 of expert 2 (slice 1 of 2), and "
                    "rank 0 wants them; expected a rank that has them");
  CHECK_THROWS_AS(
      redistribution(all, distribution{fssdp::block_layout{{.experts = 3, .ranks = 2}}}, sizes),
      fssdp::argument_error);
  auto const plan = redistribution{all, whole, sizes};
  auto from = expert_buffer<float>{4, std::vector<std::size_t>{5}};
  auto to = expert_buffer<float>{2, sizes};
  auto few = expert_buffer<float>{1, sizes};
  support::refuses([&](auto& comm) { transfer_between(comm, plan, from, few); },
                   "to has 1 slots; expected 2");
  CHECK_THROWS_WITH(scratch_required(plan, rank_id{0}, from, few),
                    mentions("to has 1 slots; expected 2"));
  support::refuses([&](auto& comm) { transfer_between(comm, plan, to, to); }, "from has 2 slots");
  auto places = std::vector<float*>(2, to.tensors()[0].data);
  auto const twice =
      std::vector{fssdp::expert_tensor<float>{.slots = 2, .elements = 10, .places = places.data()}};
  support::refuses([&](auto& comm) { transfer_between(comm, plan, from, twice); },
                   "slots of tensor 0 of to share memory");
}

TEST_CASE("ranks whose distributions differ find out", "[collective]") {
  auto const blocks = distribution{fssdp::block_layout{{.experts = 4, .ranks = 2}}};
  auto const cyclic = distribution{fssdp::cyclic_layout{{.experts = 4, .ranks = 2}}};
  auto const slots = [](int a, int b) { return std::vector<chunk_id>{expert_id{a}, expert_id{b}}; };
  auto const mixed = distribution{4, 1, {slots(2, 0), slots(1, 3)}};
  auto const sizes = std::vector<std::size_t>{10};
  auto const plan = redistribution{blocks, cyclic, sizes};
  auto const other = redistribution{blocks, mixed, sizes};
  CHECK(plan.hash_value() != other.hash_value());
  auto world = fssdp::thread_world{2};
  auto const fallout = support::fallout_of(world, [&](thread_communicator& comm) {
    auto from = expert_buffer<float>{2, sizes};
    auto to = expert_buffer<float>{2, sizes};
    auto const swapped = redistribution{cyclic, blocks, sizes};
    transfer_between(comm, comm.rank() == rank_id{0} ? plan : swapped, from, to);
  });
  CHECK_THROWS_AS(std::rethrow_exception(fallout.of_run), fssdp::ranks_disagree);
}

TEST_CASE("ranks that mean other experts by the same moves find out", "[collective]") {
  auto const from = distribution{2, 1, {{expert_id{0}, expert_id{1}}, {}}};
  auto const sizes = std::vector<std::size_t>{10};
  auto const first = redistribution{from, distribution{2, 1, {{}, {expert_id{0}}}}, sizes};
  auto const second = redistribution{from, distribution{2, 1, {{}, {expert_id{1}}}}, sizes};
  CHECK(first.classes()[0].steps[0].plan == second.classes()[0].steps[0].plan);
  auto world = fssdp::thread_world{2};
  auto const fallout = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const me = comm.rank();
    auto memory = expert_buffer<float>{from.slots(me).size(), sizes};
    auto wanted = expert_buffer<float>{me == rank_id{1} ? 1U : 0U, sizes};
    transfer_between(comm, me == rank_id{0} ? first : second, memory, wanted);
  });
  CHECK_THROWS_AS(std::rethrow_exception(fallout.of_run), fssdp::ranks_disagree);
}
