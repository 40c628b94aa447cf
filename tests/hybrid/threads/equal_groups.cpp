// SPDX-License-Identifier: Apache-2.0
/// Groups have equal bits after every exchange, over 200 steps, whatever the method: with exchanges
/// that overlap and without, and with owners that change on the way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/two_levels.hpp"

using fssdp::gradient_exchange_options;
using fssdp::layer_id;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::owned_layouts;

namespace {

constexpr auto expert_count = 3;
constexpr auto group_ranks = 2;
constexpr auto step_count = std::min(200, FSSDP_SOAK_STEPS / 2);  // half of it ends a round

/// A rank of a group: its communicators, and what it owns.
struct group_place {
  thread_communicator& inside;
  thread_communicator& between;
  thread_communicator& checks;  // of the same counterparts
  owned_layouts layouts = support::owners_by_chance(expert_count, group_ranks, 3);
  fssdp::host_stream* stream = nullptr;

  [[nodiscard]] int group() const { return between.rank().value(); }
  [[nodiscard]] fssdp::expert_buffer<float> arena() const {
    return {2 * expert_count, support::sizes_of(support::two_shapes())};
  }
  [[nodiscard]] auto shard(layer_id layer, fssdp::expert_buffer<float>& of) const {
    return fssdp::layer_shard(layouts, layer, inside.rank(), of);
  }
  /// A step of training by this group alone.
  void train(fssdp::expert_buffer<float>& weights, std::uint64_t step) const {
    auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
    for (auto const layer : fssdp::first_n<layer_id>(2)) {
      support::write_gradients(layouts, layer, inside.rank(), group(), step, gradients);
      auto const shard_of_layer = shard(layer, weights);
      for (std::size_t k = 0; k < shard_of_layer.size(); ++k)
        for (std::size_t slot = 0; slot < shard_of_layer[k].slots; ++slot)
          for (std::size_t i = 0; auto& w : shard_of_layer[k][slot])
            w -= gradients.tensors()[k][slot][i++] / 64;
    }
  }
  /// Owners change; what is to go along is given.
  template <class... Buffers>
  void reshard(Buffers&... buffers) {
    auto const next = support::owners_by_chance(expert_count, group_ranks, 4);
    auto const plan = fssdp::reshard_plan{layouts, next};
    fssdp::reshard(inside, plan, fssdp::bytes_of(buffers...));
    layouts = next;
  }
};

/// What a rank of two groups of two ends with, as a hash: checked after every exchange.
using group_method = std::function<std::uint64_t(group_place)>;

[[nodiscard]] std::vector<std::uint64_t> run_method(group_method const& of, bool overlapped) {
  auto const groups = fssdp::hybrid_groups{{.groups = 2, .ranks_per_group = group_ranks}};
  auto world = fssdp::thread_world{groups.ranks()};
  return support::on_groups(world, groups, [&](auto&, auto& inside, auto& between) {
    auto stream = fssdp::host_stream{};
    auto checks = between.duplicate();
    return of({.inside = inside,
               .between = between,
               .checks = checks,
               .stream = overlapped ? &stream : nullptr});
  });
}
void is_equal_with_and_without_overlap(group_method const& of) {
  auto const base = run_method(of, false);
  CHECK(base[0] == base[2]);  // the same place in the other group
  CHECK(base[1] == base[3]);
  CHECK(base[0] != base[1]);
  CHECK(run_method(of, true) == base);
}

[[nodiscard]] fssdp::quantized_compressor shifted_quantized() {
  return fssdp::quantized_compressor{{.rounding = fssdp::quantized_rounding::shifted}};
}

[[nodiscard]] group_method averages(gradient_exchange_options options) {
  return [options](group_place at) {
    auto chosen = options;
    chosen.slots = 2 * expert_count;
    chosen.stream = at.stream;
    auto exchange = fssdp::gradient_exchange{at.between, at.layouts, at.inside.rank(),
                                             support::two_shapes(), chosen};
    auto gradients = std::vector<fssdp::expert_buffer<float>>{};
    for (int layer = 0; layer < 2; ++layer)
      gradients.emplace_back(0, support::sizes_of(support::two_shapes()));
    auto hash = fssdp::detail::hasher{};
    for (std::uint64_t step = 0; step < step_count; ++step) {
      for (auto const layer : fssdp::first_n<layer_id>(2)) {
        support::write_gradients(at.layouts, layer, at.inside.rank(), at.group(), step,
                                 gradients[layer.index()]);
        exchange.average(layer, gradients[layer.index()], 0.5);
      }
      exchange.synchronize();
      exchange.advance();
      for (auto const& of_layer : gradients) {
        fssdp::require_equal_bits(at.checks, of_layer);
        hash.mix(fssdp::hash_of_bits(of_layer));
      }
      if (step != step_count / 2) continue;
      at.reshard(exchange.kept());
      exchange.reshard(at.layouts);
    }
    return hash.value();
  };
}

[[nodiscard]] group_method rounds_of(fssdp::parameter_exchange_options options,
                                     std::uint64_t every) {
  return [=](group_place at) {
    auto chosen = options;
    chosen.slots = 2 * expert_count;
    chosen.stream = at.stream;
    auto exchange = fssdp::parameter_exchange{at.between, at.layouts, at.inside.rank(),
                                              support::two_shapes(), chosen};
    auto weights = at.arena();
    auto hash = fssdp::detail::hasher{};
    for (auto const layer : fssdp::first_n<layer_id>(2))
      exchange.begin(layer, at.shard(layer, weights));
    for (std::uint64_t step = 0; step < step_count; ++step) {
      at.train(weights, step);
      if ((step + 1) % every != 0) continue;
      for (auto const layer : fssdp::first_n<layer_id>(2))
        exchange.start(layer, at.shard(layer, weights));
      for (auto const layer : fssdp::first_n<layer_id>(2)) {
        exchange.finish(layer, at.shard(layer, weights));
        fssdp::require_equal_bits(at.checks, at.shard(layer, weights));
        hash.mix(fssdp::hash_of_bits(at.shard(layer, weights)));
      }
      exchange.advance();
      if (step + 1 != step_count / 2) continue;
      at.reshard(weights, exchange.kept(), exchange.residuals());
      exchange.reshard(at.layouts);
    }
    return hash.value();
  };
}

}  // namespace

TEST_CASE("every method that averages gradients leaves all groups with equal bits at every step") {
  for (auto const& options : std::vector<gradient_exchange_options>{
           {},
           {.compressor = fssdp::codec_compressor<fssdp::int8_codec>{}},
           fssdp::demo(fssdp::top_dct_compressor{}),
           fssdp::demo(fssdp::top_dct_compressor{{.rows = 8, .columns = 8, .kept = 5}}),
           fssdp::demo(fssdp::strided_compressor{4}),
           fssdp::demo(fssdp::random_compressor{0.25}),
           {.compressor = fssdp::ternary_compressor{}},
           {.compressor = fssdp::quantized_compressor{}},
           {.compressor = shifted_quantized()},
           {.compressor = fssdp::threshold_compressor{}},
           {.compressor = fssdp::low_rank_compressor{.rank = 2}}}) {
    CAPTURE(options.compressor.description());
    is_equal_with_and_without_overlap(averages(options));
  }
}

TEST_CASE("local SGD and DiLoCo, in full and by a codec, leave equal bits after every round") {
  is_equal_with_and_without_overlap(rounds_of({}, 4));
  is_equal_with_and_without_overlap(rounds_of({.outer = fssdp::diloco}, 10));
  is_equal_with_and_without_overlap(rounds_of(
      {.outer = fssdp::diloco, .compressor = fssdp::codec_compressor<fssdp::int8_codec>{}}, 10));
  is_equal_with_and_without_overlap(rounds_of({.compressor = shifted_quantized()}, 4));
}

TEST_CASE("CO2 leaves equal bits after every round") {
  is_equal_with_and_without_overlap([](group_place at) {
    auto exchange =
        fssdp::delayed_exchange{at.between,
                                at.layouts,
                                at.inside.rank(),
                                support::two_shapes(),
                                {.momentum = 0.2, .slots = 2 * expert_count, .stream = at.stream}};
    auto weights = at.arena();
    auto hash = fssdp::detail::hasher{};
    auto const for_all = [&](auto call) {
      for (auto const layer : fssdp::first_n<layer_id>(2)) call(layer, at.shard(layer, weights));
    };
    for_all([&](layer_id layer, auto const& shard) { exchange.begin(layer, shard); });
    for (std::uint64_t step = 0; step < step_count; ++step) {
      at.train(weights, step);
      if (step % 10 == 0)
        for_all([&](layer_id layer, auto const& shard) { exchange.first_step(layer, shard); });
      if (step % 10 != 9) continue;
      auto const gap = fssdp::staleness_gap(at.inside, at.between, exchange.gap_of_rank());
      for_all([&](layer_id layer, auto const& shard) { exchange.synchronize(layer, shard, gap); });
      exchange.advance();
      for_all([&](layer_id, auto const& shard) {
        fssdp::require_equal_bits(at.checks, shard);
        hash.mix(fssdp::hash_of_bits(shard));
      });
      if (step + 1 != step_count / 2) continue;
      at.reshard(weights, exchange.kept(), exchange.residuals());
      exchange.reshard(at.layouts);
    }
    return hash.value();
  });
}

TEST_CASE("anchors of Streaming DiLoCo are equal, and parameters without a mix") {
  for (auto const mix : {0.0, 0.5}) {
    auto const schedule = fssdp::staggered{.fragments = 2, .period = 10, .delay = 3};
    is_equal_with_and_without_overlap([&](group_place at) {
      auto exchange = fssdp::parameter_exchange{
          at.between,
          at.layouts,
          at.inside.rank(),
          support::two_shapes(),
          {.outer = fssdp::diloco, .mix = mix, .slots = 2 * expert_count, .stream = at.stream}};
      auto weights = at.arena();
      auto hash = fssdp::detail::hasher{};
      for (auto const layer : fssdp::first_n<layer_id>(2))
        exchange.begin(layer, at.shard(layer, weights));
      for (std::uint64_t step = 1; step <= step_count; ++step) {
        at.train(weights, step);
        auto const turn = schedule(step, step_count);
        if (turn.applied >= 0) {
          auto const layer = layer_id{turn.applied};
          exchange.finish(layer, at.shard(layer, weights));
          auto equal = at.shard(layer, exchange.kept());  // anchors, velocities, what is being sent
          equal.resize(support::two_shapes().size());
          if (mix == 0) equal = at.shard(layer, weights);
          fssdp::require_equal_bits(at.checks, equal);
          hash.mix(fssdp::hash_of_bits(equal));
          exchange.advance();
        }
        if (step == step_count / 2 - 1) {  // nothing is under way
          at.reshard(weights, exchange.kept(), exchange.residuals());
          exchange.reshard(at.layouts);
        }
        if (turn.sent >= 0)
          exchange.start(layer_id{turn.sent}, at.shard(layer_id{turn.sent}, weights));
      }
      return hash.value();
    });
  }
}

TEST_CASE("groups that have drifted apart are found, and named") {
  auto world = fssdp::thread_world{3};
  auto const texts = support::on_all_ranks(world, [](thread_communicator& between) {
    auto weights = fssdp::expert_buffer<float>{1, std::vector<std::size_t>{9}};
    fssdp::require_equal_bits(between, weights);
    if (between.rank() == rank_id{2}) weights.tensors()[0][0][4] = 1e-30F;
    try {
      fssdp::require_equal_bits(between, weights);
    } catch (fssdp::ranks_disagree const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  });
  for (auto const& text : texts) CHECK(text.starts_with("require_equal_bits: group 2 has "));
}
