// SPDX-License-Identifier: Apache-2.0
/// What a coded reduction promises: the sum of what the payloads say, bit for bit, in the order of
/// a reduction without a codec, and the bits of that one where no link is coded.
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/any_codec.hpp"
#include "support/buffers_on_ranks.hpp"
#include "support/coded_instance.hpp"
#include "support/cut_chunks.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::coded_links;
using fssdp::dtype;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::any_codec;
using support::chunks_on_ranks;
using support::coded_instance;
using support::held_chunks;
using support::owned_chunks;
using support::per_rank;
using support::types;
using support::values;

namespace {

/// Partials like gradients, others on every rank.
template <class From>
[[nodiscard]] per_rank<From> filled_partials(coded_instance const& of) {
  return support::filled_like_gradients(support::partials_on_ranks<From>(of));
}

/// The gradients of each rank after a reduction, with links or without.
template <class To, class From, class... Links>
[[nodiscard]] per_rank<To> reduced(coded_instance const& of, per_rank<From> const& partials,
                                   Links const&... links) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto gradients = fssdp::make_shard<To>(of.layout, comm.rank(), of.elements);
    fssdp::sparse_reduce_scatter(comm, of.plan, partials[comm.rank().index()], gradients, links...);
    return gradients;
  });
}

/// The same of dtypes and a codec that are values.
[[nodiscard]] std::vector<support::any_buffer> reduced(
    coded_instance const& of, std::vector<support::any_buffer> const& partials, dtype to,
    fssdp::link_coding const& coding) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto gradients = support::any_shard(of, comm.rank(), to);
    fssdp::sparse_reduce_scatter(comm, of.plan, partials[comm.rank().index()], gradients, coding);
    return gradients;
  });
}

/// How often a payload has arrived, and how many sums were in them.
struct payload_counts {
  int coded = 0;
  int sums = 0;
};

template <class Partials, class Gradients>
void require_sums_of_payloads(coded_instance const& of, Partials const& partials,
                              Gradients const& got, std::pair<dtype, dtype> from_to,
                              any_codec const& coder, payload_counts& counts) {
  auto const arriving = [&](fssdp::transfer const& t, values const& sent) {
    if (!support::goes_over(of, of.on, t)) return sent;
    counts.coded += 1;
    for (auto const& other : of.plan.transfers())
      counts.sums += other.source == t.destination && other.what() == t.what() ? 1 : 0;
    return coder.coded_and_decoded(sent);
  };
  for (std::size_t k = 0; k < of.elements.size(); ++k) {
    auto const right = support::naive_reduction(of.plan, held_chunks(of, partials, k),
                                                from_to.first, from_to.second, arriving);
    REQUIRE(support::different(owned_chunks(of, got, k), right) == 0);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a coded reduction sums the decoded payloads, in the order of the plan", "",
                   (types<float, float, fssdp::bf16_codec>),
                   (types<fssdp::bf16, float, fssdp::fp8_e4m3_codec>)) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  auto const coder = typename TestType::codec{};
  auto counts = payload_counts{};
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const partials = filled_partials<From>(of);
    auto const got = reduced<To>(of, partials, coded_links{coder, of.on});
    require_sums_of_payloads(of, partials, got, {fssdp::dtype_of<From>, fssdp::dtype_of<To>},
                             any_codec{"", coder}, counts);
  });
  REQUIRE(counts.coded > 0);
  REQUIRE(counts.sums > 0);
}

TEST_CASE("coded reductions sum any dtype into any dtype, with any codec") {
  auto const pairs = support::pairs_of_dtypes();
  auto next = std::size_t{0};
  for (auto const& coder : support::all_codecs()) {
    auto counts = payload_counts{};
    support::for_coded_instances(2 * support::some_instances, [&](coded_instance const& of) {
      auto const& types = pairs[next++ % pairs.size()];
      CAPTURE(coder.name, fssdp::name_of(types.first), fssdp::name_of(types.second));
      auto const partials =
          support::filled_like_gradients(support::any_partials_on_ranks(of, types.first));
      auto const got = reduced(of, partials, types.second, coder.on(of.on));
      require_sums_of_payloads(of, partials, got, types, coder, counts);
    });
    REQUIRE(counts.coded > 0);
    REQUIRE(counts.sums > 0);
  }
}

TEST_CASE("with a direct plan, gradients are the sums in rank order of what each partial becomes") {
  support::for_coded_instances(support::some_instances, [](coded_instance of) {
    of.plan = rank_ordered(of.plan);
    auto const coder = any_codec{"int8_codec", fssdp::int8_codec{}};
    auto const partials = filled_partials<float>(of);
    auto const got = reduced<float>(of, partials, coded_links{fssdp::int8_codec{}, of.on});
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto const contributed = held_chunks(of, partials, k);
      auto right = chunks_on_ranks{};
      for (auto const chunk : fssdp::all_chunks(of.layout)) {
        auto const owner = of.layout.owner(chunk);
        auto& sum = right[{owner, chunk}];
        for (auto const rank : of.where.holders(chunk.expert)) {
          auto part = contributed.at({rank, chunk});
          if (rank != owner && support::goes_over(of, of.on, {0, chunk, owner, rank}))
            part = coder.coded_and_decoded(part);
          if (sum.empty())
            sum = part;
          else
            for (std::size_t i = 0; i < sum.size(); ++i)
              sum[i] = support::rounded(dtype::fp32, sum[i] + part[i]);
        }
      }
      REQUIRE(support::different(owned_chunks(of, got, k), right) == 0);
    }
  });
}

TEST_CASE("chunks that go over no coded link have the bits that they have without a codec") {
  auto untouched = 0;
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const partials = filled_partials<float>(of);
    auto const plain = reduced<float>(of, partials);
    auto const coded = reduced<float>(of, partials, coded_links{fssdp::int8_codec{}, of.on});
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto got = chunks_on_ranks{};
      for (auto const& [place, elements] : owned_chunks(of, coded, k))
        if (!support::any_goes_over(of, of.on, place.second)) got[place] = elements;
      untouched += static_cast<int>(got.size());
      REQUIRE(support::different(got, owned_chunks(of, plain, k)) == 0);
    }
  });
  REQUIRE(untouched > 0);
}

TEST_CASE("whatever the plan, sums are off by no more than the bounds of their payloads") {
  for (auto const& coder : support::all_codecs())
    support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
      CAPTURE(coder.name);
      constexpr auto type = dtype::fp64;
      auto const block = coder.block_elements;
      auto const partials =
          support::filled_like_gradients(support::any_partials_on_ranks(of, type));
      auto const got = reduced(of, partials, type, coder.on(of.on));
      auto wrong = 0;
      for (std::size_t k = 0; k < of.elements.size(); ++k) {
        auto bounds = std::map<fssdp::piece_id, values>{};
        auto const arriving = [&](fssdp::transfer const& t, values const& sent) {
          if (!support::goes_over(of, of.on, t)) return sent;
          auto const floats = std::vector<float>(sent.begin(), sent.end());
          auto const largest = support::largest_of_blocks(floats, block);
          auto& bound = bounds[t.what()];
          bound.resize(sent.size());
          for (std::size_t i = 0; i < sent.size(); ++i)
            bound[i] += coder.error_bound(floats[i], largest[i / block]) + std::abs(sent[i]) * 1e-6;
          return coder.coded_and_decoded(sent);
        };
        auto const contributed = held_chunks(of, partials, k);
        (void)support::naive_reduction(of.plan, contributed, type, type, arriving);
        auto const exact = support::naive_reduction(of.plan, contributed, type, type);
        for (auto const& [place, elements] : owned_chunks(of, got, k))
          for (int piece = 0; piece < of.plan.pieces(); ++piece) {
            auto const part = fssdp::piece_extent{elements.size(), piece, of.plan.pieces()};
            auto const& bound = bounds[{place.second, piece}];
            for (std::size_t i = 0; i < part.elements; ++i) {
              auto const error =
                  std::abs(elements[part.first + i] - exact.at(place)[part.first + i]);
              wrong += error <= (bound.empty() ? 0 : bound[i]) + 1e-15 ? 0 : 1;
            }
          }
      }
      REQUIRE(wrong == 0);
    });
}

TEST_CASE("coded sums are scaled once, and written or added") {
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = 3}};
  auto const topo = fssdp::topology{{.nodes = 3, .ranks = 3}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout), topo);
  auto const got = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto partials = fssdp::make_partials<float>(plan, comm.rank(), 1);
    partials.tensors()[0][0][0] = comm.rank() == rank_id{0} ? 1.001F : 2.0F;
    auto gradients = fssdp::make_shard<float>(layout, comm.rank(), 1);
    auto const links = coded_links{fssdp::bf16_codec{}};
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients, links, {.scale = 2});
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients, links,
                                 {.scale = -4, .into = fssdp::write_mode::accumulate});
    return comm.rank() == rank_id{0} ? gradients.tensors()[0][0][0] : 0.0F;
  });
  auto const sum = 1.001F + 4.0F;  // the owner's own part is not coded
  REQUIRE(got[0] == 2 * sum + -4 * sum);
}
