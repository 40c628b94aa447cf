// SPDX-License-Identifier: Apache-2.0
/// What a coded reduction promises: the sum of what the payloads say, bit for bit, in the order of
/// a reduction without a codec, and the bits of that one where no link is coded.
#include <cmath>
#include <map>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/coded_instance.hpp"
#include "support/cut_chunks.hpp"
#include "support/hundreds_codec.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::coded_links;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::chunks_on_ranks;
using support::coded_instance;
using support::held_chunks;
using support::owned_chunks;
using support::per_rank;
using support::types;

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

}  // namespace

TEMPLATE_TEST_CASE("a coded reduction sums what the payloads say, in the order of the plan", "",
                   TYPES_OF_A_TEST((types<float, float, fssdp::bf16_codec>),
                                   (types<fssdp::bf16, float, fssdp::fp8_e4m3_codec>),
                                   (types<float, fssdp::bf16, fssdp::fp8_e5m2_codec>),
                                   (types<double, double, fssdp::int8_codec>),
                                   (types<float, double, support::hundreds_codec>),
                                   (types<fssdp::fp16, float, support::hundreds_codec>))) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  using sum_type = fssdp::accumulator_t<From>;
  auto coder = typename TestType::codec{};
  if constexpr (requires { coder.levels; }) coder.levels = 77;
  auto coded = 0;
  auto sums = 0;
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const partials = filled_partials<From>(of);
    auto const got = reduced<To>(of, partials, coded_links{coder, of.on});
    auto const arriving = [&](fssdp::transfer const& t, std::vector<sum_type> const& sent) {
      if (!support::goes_over(of, of.on, t)) return sent;
      coded += 1;
      for (auto const& other : of.plan.transfers())
        sums += other.source == t.destination && other.what() == t.what() ? 1 : 0;
      auto const floats = support::coded_and_decoded(coder, std::span{sent});
      return std::vector<sum_type>(floats.begin(), floats.end());
    };
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto const right =
          support::naive_reduction<To>(of.plan, held_chunks(of, partials, k), arriving);
      REQUIRE(support::different(owned_chunks(of, got, k), right) == 0);
    }
  });
  REQUIRE(coded > 0);
  REQUIRE(sums > 0);
}

TEST_CASE("with a direct plan, gradients are the sums in rank order of what each partial becomes") {
  support::for_coded_instances(support::some_instances, [](coded_instance of) {
    of.plan = rank_ordered(of.plan);
    auto const coder = fssdp::int8_codec{};
    auto const partials = filled_partials<float>(of);
    auto const got = reduced<float>(of, partials, coded_links{coder, of.on});
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto const contributed = held_chunks(of, partials, k);
      auto right = chunks_on_ranks<float>{};
      for (auto const chunk : fssdp::all_chunks(of.layout)) {
        auto const owner = of.layout.owner(chunk);
        auto& sum = right[{owner, chunk}];
        for (auto const rank : of.where.holders(chunk.expert)) {
          auto part = contributed.at({rank, chunk});
          if (rank != owner && support::goes_over(of, of.on, {0, chunk, owner, rank}))
            part = support::there_and_back(coder, part);
          if (sum.empty())
            sum = part;
          else
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
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
      auto got = chunks_on_ranks<float>{};
      for (auto const& [place, elements] : owned_chunks(of, coded, k))
        if (!support::any_goes_over(of, of.on, place.second)) got[place] = elements;
      untouched += static_cast<int>(got.size());
      REQUIRE(support::different(got, owned_chunks(of, plain, k)) == 0);
    }
  });
  REQUIRE(untouched > 0);
}

TEMPLATE_TEST_CASE("whatever the plan, sums are off by no more than the bounds of their payloads",
                   "", fssdp::bf16_codec, fssdp::fp8_e4m3_codec, fssdp::fp8_e5m2_codec,
                   fssdp::int8_codec, support::hundreds_codec) {
  constexpr auto block = TestType::block_elements;
  auto const coder = TestType{};
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const partials = filled_partials<double>(of);
    auto const got = reduced<double>(of, partials, coded_links{coder, of.on});
    auto wrong = 0;
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto bounds = std::map<fssdp::piece_id, std::vector<double>>{};
      auto const arriving = [&](fssdp::transfer const& t, std::vector<double> const& sent) {
        if (!support::goes_over(of, of.on, t)) return sent;
        auto const floats = std::vector<float>(sent.begin(), sent.end());
        auto const largest = support::largest_of_blocks(floats, block);
        auto& bound = bounds[t.what()];
        bound.resize(sent.size());
        for (std::size_t i = 0; i < sent.size(); ++i)
          bound[i] += coder.error_bound(floats[i], largest[i / block]) + std::abs(sent[i]) * 1e-6;
        auto const decoded = support::there_and_back(coder, floats);
        return std::vector<double>(decoded.begin(), decoded.end());
      };
      auto const contributed = held_chunks(of, partials, k);
      (void)support::naive_reduction<double>(of.plan, contributed, arriving);
      auto const exact = support::naive_reduction<double>(of.plan, contributed);
      for (auto const& [place, elements] : owned_chunks(of, got, k))
        for (int piece = 0; piece < of.plan.pieces(); ++piece) {
          auto const part = fssdp::piece_extent{elements.size(), piece, of.plan.pieces()};
          auto const& bound = bounds[{place.second, piece}];
          for (std::size_t i = 0; i < part.elements; ++i) {
            auto const error = std::abs(elements[part.first + i] - exact.at(place)[part.first + i]);
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
