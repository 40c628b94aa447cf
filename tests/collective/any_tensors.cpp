// SPDX-License-Identifier: Apache-2.0
/// Buffers whose dtypes are known at run time get the bits of buffers whose types the compiler
/// knows, whatever dtypes the tensors of one expert have. (differential.cpp has what these are.)
#include "fssdp/collective/any_tensors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/wire_bytes.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "support/allocation_counter.hpp"
#include "support/any_buffer.hpp"
#include "support/coded_instance.hpp"
#include "support/communicator_archetype.hpp"
#include "support/device_archetype.hpp"
#include "support/host_types.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::any_tensor;
using fssdp::dtype;
using fssdp::expert_tensor;
using fssdp::tensor_types;
using fssdp::thread_communicator;
using support::any_buffer;
using support::dice;
using support::random_instance;

static_assert(fssdp::any_memory<any_tensor> && !fssdp::expert_memory<any_tensor>);
static_assert(fssdp::any_memory<std::vector<fssdp::any_const_tensor> const>);
static_assert(!fssdp::any_memory<expert_tensor<float>> && !fssdp::any_memory<std::vector<float>>);
static_assert(fssdp::is_read_only<fssdp::any_const_tensor> && !fssdp::is_read_only<any_tensor>);

namespace {

[[nodiscard]] dtype any_dtype(dice& draw) {
  return fssdp::all_dtypes[static_cast<std::size_t>(draw.between(0, 5))];
}

/// Memory for one tensor, filled with numbers whose sums depend on their order.
[[nodiscard]] any_buffer filled(dtype type, std::size_t slots, std::size_t elements, dice draw) {
  auto buffer = any_buffer{type, slots, std::span{&elements, 1}};
  support::fill(buffer, [&] {
    return std::ldexp(draw.between(-1'000'000, 1'000'000), draw.between(-30, 5));
  });
  return buffer;
}

/// The buffers of one rank for all tensors of an instance, each of its own dtypes.
struct any_buffers {
  std::vector<tensor_types> types;
  std::vector<dtype> gradient_types;
  std::vector<any_buffer> shard, replicas, in_one_piece, partials, gradients, residuals;

  any_buffers(random_instance const& of, fssdp::rank_id me, std::vector<tensor_types> const& chosen,
              std::vector<dtype> const& of_gradients)
      : types{chosen}, gradient_types{of_gradients} {
    for (std::size_t k = 0; k < types.size(); ++k) {
      auto const slice = fssdp::slice_elements(of.elements[k], of.layout.slices());
      auto const seed = dice{1000 * me.index() + k};
      auto const owned = of.plan.owned_count(me);
      auto const held = of.plan.materialized(me).size();
      shard.push_back(filled(types[k].weight, owned, slice, seed));
      replicas.push_back(filled(types[k].replica, of.plan.remote(me).size(), of.elements[k], seed));
      in_one_piece.push_back(filled(types[k].replica, held, of.elements[k], seed));
      partials.push_back(filled(types[k].partial, held, of.elements[k], seed));
      gradients.push_back(filled(gradient_types[k], owned, slice, seed));
      residuals.push_back(
          filled(dtype::fp32, held, of.elements[k], dice{1000 * me.index() + k + 500}));
    }
  }
  /// How many tensors have other bits.
  [[nodiscard]] int different(any_buffers const& other) const {
    auto count = 0;
    for (std::size_t k = 0; k < types.size(); ++k)
      for (auto const buffer :
           {&any_buffers::shard, &any_buffers::replicas, &any_buffers::in_one_piece,
            &any_buffers::partials, &any_buffers::gradients, &any_buffers::residuals})
        count += (this->*buffer)[k] == (other.*buffer)[k] ? 0 : 1;
    return count;
  }
};

[[nodiscard]] std::vector<any_tensor> views(std::vector<any_buffer> const& buffers) {
  auto list = std::vector<any_tensor>{};
  for (auto const& buffer : buffers) list.push_back(buffer.tensors().front());
  return list;
}
/// Such a buffer as one of a type that the compiler knows.
template <class T>
[[nodiscard]] expert_tensor<T> known(any_buffer const& buffer) {
  auto const& tensor = buffer.tensors().front();
  return {static_cast<T*>(tensor.data), tensor.slots, tensor.elements};
}
/// Calls visit(tensor): of a known type, or of any dtype if it is none of the most frequent ones.
template <class Visit>
void with_tensor(any_buffer const& buffer, Visit visit) {
  if (buffer.type() == dtype::fp32) return visit(known<float>(buffer));
  if (buffer.type() == dtype::bf16) return visit(known<fssdp::bf16>(buffer));
  visit(buffer.tensors().front());
}

/// Random dtypes for every tensor, the same on all ranks.
struct any_types {
  std::vector<tensor_types> tensors;
  std::vector<dtype> gradients;

  any_types(random_instance const& of, dice draw) {
    for (auto const elements : of.elements) {
      auto const weight = any_dtype(draw);
      auto const replica = draw.chance(40) ? weight : any_dtype(draw);
      tensors.push_back({elements, weight, replica, any_dtype(draw)});
      gradients.push_back(any_dtype(draw));
    }
  }
};

/// All three collectives, each tensor by itself, with types that the compiler knows of some.
template <class Comm, class... Links>
void run_each(Comm& comm, random_instance const& of, any_buffers& mine, Links const&... links) {
  for (std::size_t k = 0; k < mine.types.size(); ++k) {
    with_tensor(mine.shard[k], [&](auto const& shard) {
      with_tensor(mine.replicas[k], [&](auto const& replicas) {
        if constexpr (sizeof...(Links) == 0)
          fssdp::sparse_all_gather(comm, of.plan, shard, replicas);
      });
      with_tensor(mine.in_one_piece[k], [&](auto const& in_one_piece) {
        fssdp::sparse_all_gather(comm, of.plan, shard, in_one_piece, links...);
      });
    });
    with_tensor(mine.partials[k], [&](auto const& partials) {
      with_tensor(mine.gradients[k], [&](auto const& gradients) {
        fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients, links..., {.scale = 0.3});
        if constexpr (sizeof...(Links) != 0)
          fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients, links...,
                                       known<float>(mine.residuals[k]),
                                       {.into = fssdp::write_mode::accumulate});
      });
    });
  }
}
/// The same, all tensors at once, as values.
template <class Comm, class... Links>
void run_any(Comm& comm, random_instance const& of, any_buffers& mine, Links const&... links) {
  auto residuals = std::vector<expert_tensor<float>>{};
  for (auto const& residual : mine.residuals) residuals.push_back(known<float>(residual));
  if constexpr (sizeof...(Links) == 0)
    fssdp::sparse_all_gather(comm, of.plan, views(mine.shard), views(mine.replicas));
  fssdp::sparse_all_gather(comm, of.plan, views(mine.shard), views(mine.in_one_piece), links...);
  fssdp::sparse_reduce_scatter(comm, of.plan, views(mine.partials), views(mine.gradients), links...,
                               {.scale = 0.3});
  if constexpr (sizeof...(Links) != 0)
    fssdp::sparse_reduce_scatter(comm, of.plan, views(mine.partials), views(mine.gradients),
                                 links..., residuals, {.into = fssdp::write_mode::accumulate});
}

/// How many tensors differ on any rank.
template <class... Links>
[[nodiscard]] int different(random_instance const& of, any_types const& types,
                            Links const&... links) {
  auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto each = any_buffers{of, comm.rank(), types.tensors, types.gradients};
    auto all = any_buffers{of, comm.rank(), types.tensors, types.gradients};
    run_each(comm, of, each, links...);
    run_any(comm, of, all, links...);
    return each.different(all);
  });
  auto sum = 0;
  for (auto const of_rank : found) sum += of_rank;
  return sum;
}

}  // namespace

TEST_CASE("tensors of any dtypes get the bits that each gets by itself, of a known type or not") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    REQUIRE(different(of, any_types{of, dice{of.elements.front()}}) == 0);
  });
}

TEST_CASE(
    "coded tensors of any dtypes get the bits that each gets alone, with error feedback and "
    "without") {
  support::for_coded_instances(support::some_instances, [](support::coded_instance const& of) {
    auto const types = any_types{of, dice{of.elements.front() + 1}};
    REQUIRE(different(of, types, fssdp::coded_links{fssdp::int8_codec{}, of.on}) == 0);
  });
}

TEST_CASE("every pair of dtypes gets those bits, together with any other") {
  auto of = random_instance{5, {.ranks = 4, .nodes = 2, .experts = 5}};
  of.elements = {600};
  for (auto const from : fssdp::all_dtypes)
    for (auto const to : fssdp::all_dtypes) {
      CAPTURE(fssdp::name_of(from), fssdp::name_of(to));
      auto types = any_types{of, dice{1}};
      types.tensors.front() = {600, from, to, from};
      types.gradients.front() = to;
      REQUIRE(different(of, types) == 0);
    }
}

TEST_CASE("tensors of any dtypes on a device get the bits of the host") {
  support::for_random_instances(
      support::some_instances,
      [](random_instance const& of) {
        auto const types = any_types{of, dice{of.elements.front() + 2}};
        auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
          auto on_host = any_buffers{of, comm.rank(), types.tensors, types.gradients};
          auto on_device = any_buffers{of, comm.rank(), types.tensors, types.gradients};
          auto device = support::on_a_device{comm};
          run_any(comm, of, on_host);
          run_any(device, of, on_device);
          return on_host.different(on_device);
        });
        REQUIRE(found == std::vector(found.size(), 0));
      },
      {.ranks = 6, .nodes = 3, .experts = 16});
}

TEST_CASE("tensors of any dtypes take the memory and send the bytes that were predicted") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const types = any_types{of, dice{of.elements.front() + 3}};
    auto const tensors = std::span<tensor_types const>{types.tensors};
    auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto bare = support::exchange_only{comm};
      auto mine = any_buffers{of, comm.rank(), types.tensors, types.gradients};
      auto const use = fssdp::memory_required(of.plan, comm.rank(), tensors);
      auto gather_scratch = fssdp::scratch_memory{};
      auto reduce_scratch = fssdp::scratch_memory{};
      auto const changes = std::ranges::any_of(
          tensors, [](auto const& each) { return each.weight != each.replica; });
      fssdp::sparse_all_gather(bare, of.plan, views(mine.shard),
                               views(changes ? mine.in_one_piece : mine.replicas),
                               {.scratch = &gather_scratch});
      fssdp::sparse_reduce_scatter(bare, of.plan, views(mine.partials), views(mine.gradients),
                                   {.scratch = &reduce_scratch});
      return std::array{use.gather_scratch, gather_scratch.bytes(), use.reduce_scratch,
                        reduce_scratch.bytes()};
    });
    for (auto const& of_rank : found) {
      REQUIRE(of_rank[0] == of_rank[1]);
      REQUIRE(of_rank[2] == of_rank[3]);
    }
    auto gathered = std::uint64_t{0};
    auto reduced = std::uint64_t{0};
    for (auto const& tensor : tensors) {
      auto const size = std::span{&tensor.elements, 1};
      fssdp::with_element(tensor.replica, [&]<class R>(std::type_identity<R>) {
        gathered += fssdp::gathered_bytes<R>(of.plan, size).total();
      });
      fssdp::with_element(tensor.partial, [&]<class P>(std::type_identity<P>) {
        reduced += fssdp::reduced_bytes<P>(of.plan, size).total();
      });
    }
    REQUIRE(fssdp::gathered_bytes(of.plan, tensors).total() == gathered);
    REQUIRE(fssdp::reduced_bytes(of.plan, tensors).total() == reduced);
  });
}

TEST_CASE("memory_required is the same for dtypes that all tensors share") {
  auto const of = random_instance{3};
  auto tensors = std::vector<tensor_types>{};
  for (auto const elements : of.elements) tensors.push_back({elements, dtype::fp32, dtype::bf16});
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    REQUIRE(fssdp::memory_required(of.plan, rank, std::span<tensor_types const>{tensors}) ==
            fssdp::memory_required<float, fssdp::bf16>(of.plan, rank, of.elements));
}

TEST_CASE("collectives of any dtypes with scratch do not allocate, once they have been called") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    if (of.elements.size() > 6) return;
    auto const types = any_types{of, dice{of.elements.front()}};
    auto const counts = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = any_buffers{of, comm.rank(), types.tensors, types.gradients};
      auto const shard = views(mine.shard);
      auto const replicas = views(mine.in_one_piece);
      auto const partials = views(mine.partials);
      auto const gradients = views(mine.gradients);
      auto scratch = fssdp::scratch_memory{};
      auto const both = [&] {
        fssdp::sparse_all_gather(comm, of.plan, shard, replicas, {.scratch = &scratch});
        fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients, {.scratch = &scratch});
      };
      both();
      return support::allocations_in(both);
    });
    REQUIRE(counts == std::vector(counts.size(), 0L));
  });
}

TEST_CASE("one of the two buffers may have a static element type") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = support::rank_buffers<fssdp::bf16, float>{of, comm.rank()};
      auto any = [](auto& buffer) {
        auto list = std::vector<any_tensor>{};
        for (auto const& tensor : buffer.tensors()) list.push_back(fssdp::any_tensor_of(tensor));
        return list;
      };
      auto stream = fssdp::host_stream{};
      auto queued = fssdp::on_stream(comm, stream);
      fssdp::sparse_all_gather(queued, of.plan, mine.shard, any(mine.in_one_piece));
      fssdp::sparse_reduce_scatter(queued, of.plan, any(mine.partials), mine.gradients);
      queued.synchronize();
      return mine.wrong_in_one_piece() + mine.wrong_gradients() + mine.wrong_inputs();
    });
    for (auto const& of_rank : wrong) REQUIRE(of_rank == 0);
  });
}

TEST_CASE("a reshard moves tensors of any dtypes, and bytes_of takes them") {
  auto const before = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const after = fssdp::cyclic_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::reshard_plan{before, after};
  auto const found = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto doubles = std::array<double, 2>{};
    auto bytes = std::array<fssdp::fp8_e4m3, 4>{};
    for (auto const chunk : before.owned(comm.rank())) {
      auto const slot = static_cast<std::size_t>(before.slot(chunk.expert));
      doubles[slot] = chunk.expert.value();
      bytes[2 * slot] = fssdp::fp8_e4m3{static_cast<float>(chunk.expert.value())};
    }
    auto const shard = std::array{
        any_tensor{.type = dtype::fp64, .data = doubles.data(), .slots = 2, .elements = 1},
        any_tensor{.type = dtype::e4m3, .data = bytes.data(), .slots = 2, .elements = 2}};
    fssdp::reshard(comm, plan, shard);
    fssdp::reshard(comm, fssdp::reshard_plan{after, before}, fssdp::bytes_of(shard));
    fssdp::reshard(comm, plan, shard);
    auto experts = std::vector<int>{};
    for (auto const chunk : after.owned(comm.rank())) {
      auto const slot = static_cast<std::size_t>(after.slot(chunk.expert));
      experts.push_back(static_cast<int>(doubles[slot]) - chunk.expert.value());
      experts.push_back(static_cast<int>(static_cast<float>(bytes[2 * slot])) -
                        chunk.expert.value());
    }
    return experts;
  });
  REQUIRE(found == std::vector{std::vector(4, 0), std::vector(4, 0)});
}

TEST_CASE("tensors of any dtypes that do not fit are refused by name") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 1}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto alone = support::communicator_archetype{fssdp::rank_id{0}};
  auto memory = std::array<double, 32>{};
  auto const tensor = [&](dtype type, std::size_t first, std::size_t elements = 2) {
    return any_tensor{.type = type, .data = &memory[first], .slots = 2, .elements = elements};
  };
  auto const refuses = [&](any_tensor from, any_tensor to, char const* text) {
    auto const gather = [&] { fssdp::sparse_all_gather(alone, plan, from, to); };
    auto const reduce = [&] { fssdp::sparse_reduce_scatter(alone, plan, from, to); };
    REQUIRE_THROWS_AS(gather(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(gather(), mentions(text));
    REQUIRE_THROWS_WITH(reduce(), mentions(text));
  };
  REQUIRE_NOTHROW(
      fssdp::sparse_all_gather(alone, plan, tensor(dtype::fp64, 0), tensor(dtype::e5m2, 4)));
  refuses(tensor(dtype{6}, 0), tensor(dtype::fp32, 4),
          "dtype 6 of a tensor; expected 0 (fp32) to 5");
  refuses(tensor(dtype::fp32, 0), tensor(dtype{200}, 4), "dtype 200 of a tensor");
  refuses(tensor(dtype::fp64, 0), tensor(dtype::fp32, 3), "share memory");
  refuses(tensor(dtype::fp64, 0), tensor(dtype::fp32, 8, 3), "elements");
  REQUIRE_NOTHROW(  // floats end where doubles would overlap
      fssdp::sparse_all_gather(alone, plan, tensor(dtype::fp32, 0), tensor(dtype::fp64, 2)));
  auto const wrong = std::array{tensor_types{.elements = 1, .weight = dtype{9}}};
  REQUIRE_THROWS_WITH(
      fssdp::memory_required(plan, fssdp::rank_id{0}, std::span<tensor_types const>{wrong}),
      mentions("dtype 9"));
  auto broken = tensor(dtype{7}, 0);
  REQUIRE_THROWS_WITH(fssdp::bytes_of(broken), mentions("dtype 7"));
}

TEST_CASE("another library's element types gather, reduce and reshard as ours of the same bits") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const found = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto const me = comm.rank();
    auto const filled = [&](auto buffer, auto make) {
      auto next = 1;
      for (auto const& tensor : buffer.tensors())
        for (std::size_t slot = 0; slot < tensor.slots; ++slot)
          for (auto& value : tensor[slot])
            value = make(static_cast<float>(100 * me.value() + next++));
      return buffer;
    };
    auto const host_value = [](float value) { return host::bfloat16{fssdp::bf16{value}.bits()}; };
    auto const our_value = [](float value) { return fssdp::bf16{value}; };
    auto shard = filled(fssdp::make_shard<host::bfloat16>(layout, me, 30), host_value);
    auto our_shard = filled(fssdp::make_shard<fssdp::bf16>(layout, me, 30), our_value);
    auto replicas = fssdp::make_partials<host::half>(plan, me, 30);
    auto our_replicas = fssdp::make_partials<fssdp::fp16>(plan, me, 30);
    auto partials = filled(fssdp::make_partials<host::bfloat16>(plan, me, 30), host_value);
    auto our_partials = filled(fssdp::make_partials<fssdp::bf16>(plan, me, 30), our_value);
    auto gradients = fssdp::make_shard<float>(layout, me, 30);
    auto our_gradients = fssdp::make_shard<float>(layout, me, 30);
    fssdp::sparse_all_gather(comm, plan, shard, replicas);
    fssdp::sparse_all_gather(comm, plan, our_shard, our_replicas);
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
    fssdp::sparse_reduce_scatter(comm, plan, our_partials, our_gradients);
    auto const same = [](auto& a, auto& b) {
      return std::ranges::equal(std::as_bytes(fssdp::bytes_of(a)[0][3]),
                                std::as_bytes(fssdp::bytes_of(b)[0][3]));
    };
    auto const same_gradients =
        std::ranges::equal(gradients.tensors()[0][1], our_gradients.tensors()[0][1]);
    auto const links = fssdp::coded_links{fssdp::int8_codec{}};
    auto const plain = same(replicas, our_replicas);
    fssdp::sparse_all_gather(comm, plan, shard, replicas, links);
    fssdp::sparse_all_gather(comm, plan, our_shard, our_replicas, links);
    auto const coded = same(replicas, our_replicas);
    fssdp::reshard(comm, fssdp::reshard_plan{layout, layout}, shard);
    return std::array{plain, coded, same_gradients, gradients.tensors()[0][1][29] != 0};
  });
  for (auto const& of_rank : found) REQUIRE(of_rank == std::array{true, true, true, true});
  REQUIRE(fssdp::memory_required<host::bfloat16, fssdp::bf16>(plan, fssdp::rank_id{0}, 30) ==
          fssdp::memory_required<fssdp::bf16>(plan, fssdp::rank_id{0}, 30));
}
