// SPDX-License-Identifier: Apache-2.0
/// Error feedback in a reduction: what is lost does not grow, and only holders keep residuals.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/buffers_on_ranks.hpp"
#include "support/coded_instance.hpp"
#include "support/cut_chunks.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::coded_links;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::chunks_on_ranks;
using support::coded_instance;
using support::held_chunks;
using support::values;

namespace {

/// What three ranks on three nodes in a chain sum up over many steps: one large element in a block
/// of small ones.
struct many_steps {
  static constexpr auto count = 200;
  static constexpr auto small = 0.001F;
  double of_small = 0;
  double of_large = 0;
};
[[nodiscard]] many_steps summed_up(bool feeds_back) {
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = 3}};
  auto const topo = fssdp::topology{{.nodes = 3, .ranks = 3}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout), topo);
  auto const all = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto partials = fssdp::make_partials<float>(plan, comm.rank(), 300);
    for (auto& value : partials.tensors()[0][0]) value = many_steps::small;
    partials.tensors()[0][0][0] = 1.0F;
    auto residuals = fssdp::make_partials<float>(plan, comm.rank(), 300);
    auto gradients = fssdp::make_shard<float>(layout, comm.rank(), 300);
    auto const links = coded_links{fssdp::int8_codec{}};
    auto sums = many_steps{};
    for (int step = 0; step < many_steps::count; ++step) {
      if (feeds_back)
        fssdp::sparse_reduce_scatter(comm, plan, partials, gradients, links, residuals);
      else
        fssdp::sparse_reduce_scatter(comm, plan, partials, gradients, links);
      if (comm.rank() != rank_id{0}) continue;
      sums.of_large += static_cast<double>(gradients.tensors()[0][0][0]);
      sums.of_small += static_cast<double>(gradients.tensors()[0][0][1]);
    }
    return sums;
  });
  return all.front();
}

}  // namespace

TEST_CASE("payloads and residuals are those of encode_with_feedback, step by step") {
  auto kept = 0;
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const coder = fssdp::fp8_e4m3_codec{};
    auto residuals = support::partials_on_ranks<float>(of);
    auto right_residuals = std::vector<chunks_on_ranks>{};
    for (std::size_t k = 0; k < of.elements.size(); ++k)
      right_residuals.push_back(held_chunks(of, residuals, k));
    for (std::size_t step = 1; step <= 3; ++step) {
      auto const partials =
          support::filled_like_gradients(support::partials_on_ranks<float>(of), 100 * step);
      auto const got = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
        auto const me = comm.rank().index();
        auto gradients = fssdp::make_shard<float>(of.layout, comm.rank(), of.elements);
        fssdp::sparse_reduce_scatter(comm, of.plan, partials[me], gradients,
                                     coded_links{coder, of.on}, residuals[me]);
        return gradients;
      });
      for (std::size_t k = 0; k < of.elements.size(); ++k) {
        auto const arriving = [&](fssdp::transfer const& t, values const& sent) {
          if (!support::goes_over(of, of.on, t)) return sent;
          auto const floats = std::vector<float>(sent.begin(), sent.end());
          auto const found = right_residuals[k].find({t.destination, t.chunk});
          auto payload = support::encoded(coder, floats);
          if (found != right_residuals[k].end()) {
            auto const part = fssdp::piece_extent{found->second.size(), t.piece, of.plan.pieces()};
            auto const kept_here = std::span{found->second}.subspan(part.first, part.elements);
            auto residual = std::vector<float>(kept_here.begin(), kept_here.end());
            fssdp::encode_with_feedback(coder, std::span{floats}, std::span{residual},
                                        std::span{payload});
            std::ranges::copy(residual, kept_here.begin());
          }
          auto const arrived = support::decoded(coder, payload, sent.size());
          return values(arrived.begin(), arrived.end());
        };
        auto const right =
            support::naive_reduction(of.plan, held_chunks(of, partials, k), fssdp::dtype::fp32,
                                     fssdp::dtype::fp32, arriving);
        REQUIRE(support::different(support::owned_chunks(of, got, k), right) == 0);
        REQUIRE(support::different(held_chunks(of, residuals, k), right_residuals[k]) == 0);
      }
    }
    for (auto const& of_rank : residuals)
      for (auto const bits : support::bits(of_rank)) kept += bits != 0 ? 1 : 0;
  });
  REQUIRE(kept > 0);
}

TEST_CASE("over many steps, feedback keeps what is lost below two steps of the codec") {
  auto const fed_back = summed_up(true);
  auto const given = 3.0 * many_steps::count * static_cast<double>(many_steps::small);
  auto const step = 3.0 / 127;  // of sums of about three
  REQUIRE(std::abs(fed_back.of_small - given) < 2 * step);
  REQUIRE(std::abs(fed_back.of_large - 3.0 * many_steps::count) < 2 * step);
}

TEST_CASE("over many steps without feedback, what is lost adds up") {
  auto const alone = summed_up(false);
  auto const of_owner = many_steps::count * static_cast<double>(many_steps::small);
  REQUIRE(std::abs(alone.of_small - of_owner) < 1e-3);  // nothing else has ever arrived
}

TEST_CASE("feedback over links that are not coded touches no residual") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const got = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto partials = fssdp::make_partials<float>(plan, comm.rank(), 3);
    support::fill_like_gradients(partials, 1);
    auto residuals = fssdp::make_partials<float>(plan, comm.rank(), 3);
    for (auto& value : residuals.tensors()[0][0]) value = 7.0F;
    auto gradients = fssdp::make_shard<float>(layout, comm.rank(), 3);
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients, coded_links{fssdp::int8_codec{}},
                                 residuals);
    return residuals.tensors()[0][0][2];
  });
  REQUIRE(got == std::vector{7.0F, 7.0F});
}
