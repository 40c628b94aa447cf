// SPDX-License-Identifier: Apache-2.0
/// Bit for bit what a naive reference gives, over direct, node-aware and scheduled plans, whole and
/// sliced experts: of types that the compiler knows, and of every dtype with every other.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/buffers_on_ranks.hpp"
#include "support/cut_chunks.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/naive_collectives.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::dtype;
using fssdp::dtype_of;
using fssdp::thread_communicator;
using support::held_chunks;
using support::owned_chunks;
using support::random_instance;
using support::types;

namespace {

/// Buffers filled from seeds: other numbers on every rank.
template <class Buffer>
[[nodiscard]] std::vector<Buffer> filled(std::vector<Buffer> buffers) {
  for (std::size_t rank = 0; rank < buffers.size(); ++rank)
    support::fill_roughly(buffers[rank], rank + 1);
  return buffers;
}

/// A gather from buffers of all ranks into what make(rank) makes.
template <class Buffer, class Make>
[[nodiscard]] auto gathered(random_instance const& of, std::vector<Buffer> const& shards,
                            Make make) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto all = make(comm.rank());
    fssdp::sparse_all_gather(comm, of.plan, shards[comm.rank().index()], all);
    return all;
  });
}
/// A reduction, likewise.
template <class Buffer, class Make>
[[nodiscard]] auto reduced(random_instance const& of, std::vector<Buffer> const& partials,
                           Make make) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto gradients = make(comm.rank());
    fssdp::sparse_reduce_scatter(comm, of.plan, partials[comm.rank().index()], gradients);
    return gradients;
  });
}

template <class Shards, class Gathered>
void require_naive_gather(random_instance const& of, Shards const& shards, Gathered const& got,
                          dtype to) {
  for (std::size_t k = 0; k < of.elements.size(); ++k) {
    auto const right = support::naive_gather(of.plan, owned_chunks(of, shards, k), to);
    REQUIRE(support::different(held_chunks(of, got, k), right) == 0);
  }
}
template <class Partials, class Gradients>
void require_naive_reduction(random_instance const& of, Partials const& partials,
                             Gradients const& got, dtype from, dtype to) {
  for (std::size_t k = 0; k < of.elements.size(); ++k) {
    auto const right = support::naive_reduction(of.plan, held_chunks(of, partials, k), from, to);
    REQUIRE(support::different(owned_chunks(of, got, k), right) == 0);
  }
}

/// Calls law(from, to, instance) for every dtype with every other, on other instances for each.
template <class Law>
void for_pairs_of_dtypes(Law law) {
  auto const count = support::law_instances / 75;
  auto first = std::uint64_t{1};
  for (auto const& types : support::pairs_of_dtypes()) {
    auto const from = types.first;
    auto const to = types.second;
    CAPTURE(fssdp::name_of(from), fssdp::name_of(to));
    support::for_random_instances(
        count, [&](random_instance const& of) { law(from, to, of); }, {}, first);
    first += static_cast<std::uint64_t>(count);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a gather gives the bits of the naive reference", "", (types<float, float>),
                   (types<float, fssdp::bf16>)) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  support::for_random_instances(support::law_instances / 25, [](random_instance const& of) {
    auto const shards = filled(support::shards_on_ranks<From>(of));
    auto const got = gathered(of, shards, [&](fssdp::rank_id rank) {
      return fssdp::make_partials<To>(of.plan, rank, of.elements);
    });
    require_naive_gather(of, shards, got, dtype_of<To>);
  });
}

TEST_CASE("a gather from any dtype to any dtype gives the bits of the naive reference") {
  for_pairs_of_dtypes([](dtype from, dtype to, random_instance const& of) {
    auto const shards = filled(support::any_shards_on_ranks(of, from));
    auto const got = gathered(
        of, shards, [&](fssdp::rank_id rank) { return support::any_partials(of, rank, to); });
    require_naive_gather(of, shards, got, to);
  });
}

TEMPLATE_TEST_CASE("a reduction gives the bits of the naive reference", "", (types<float, float>),
                   (types<fssdp::bf16, float>)) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  support::for_random_instances(support::law_instances / 25, [](random_instance const& of) {
    auto const partials = filled(support::partials_on_ranks<From>(of));
    auto const got = reduced(of, partials, [&](fssdp::rank_id rank) {
      return fssdp::make_shard<To>(of.layout, rank, of.elements);
    });
    require_naive_reduction(of, partials, got, dtype_of<From>, dtype_of<To>);
  });
}

TEST_CASE("a reduction of any dtype to any dtype gives the bits of the naive reference") {
  for_pairs_of_dtypes([](dtype from, dtype to, random_instance const& of) {
    auto const partials = filled(support::any_partials_on_ranks(of, from));
    auto const got = reduced(of, partials,
                             [&](fssdp::rank_id rank) { return support::any_shard(of, rank, to); });
    require_naive_reduction(of, partials, got, from, to);
  });
}
