// SPDX-License-Identifier: Apache-2.0
/// Gradients that are averaged between groups: the same bits in all groups, for any owners, by
/// the bytes that are promised.
#include "fssdp/hybrid/gradient_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/two_levels.hpp"

using fssdp::any_compressor;
using fssdp::gradient_exchange;
using fssdp::gradient_exchange_options;
using fssdp::gradient_memory;
using fssdp::group_id;
using fssdp::hybrid_groups;
using fssdp::layer_id;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::by_unit;
using support::owned_layouts;

namespace {

using namespace std::chrono_literals;

constexpr auto experts = 7;

/// All methods, by name.
[[nodiscard]] std::vector<gradient_exchange_options> all_methods() {
  return {{},
          {.compressor = fssdp::codec_compressor<fssdp::int8_codec>{}},
          {.compressor = fssdp::top_dct_compressor{}, .memory = gradient_memory::residual},
          fssdp::demo(fssdp::top_dct_compressor{}),
          fssdp::demo(fssdp::top_dct_compressor{{.rows = 8, .columns = 8, .kept = 5}}),
          fssdp::demo(fssdp::strided_compressor{4}),
          fssdp::demo(fssdp::random_compressor{0.25}),
          {.compressor = fssdp::ternary_compressor{}},
          {.compressor = fssdp::threshold_compressor{}},
          {.compressor = fssdp::low_rank_compressor{.rank = 2}}};
}

/// The result of a run on one rank: the averages of all steps, unit by unit.
struct outcome {
  std::vector<by_unit> steps;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_promised = 0;
};

/// Some steps, on one rank; owners change in the middle if there are other ones.
[[nodiscard]] outcome run(thread_communicator& inside, thread_communicator& between,
                          owned_layouts layouts, gradient_exchange_options const& options,
                          int steps, owned_layouts const* later = nullptr) {
  auto result = outcome{};
  auto counted = fssdp::counting{between};
  auto exchange =
      gradient_exchange{counted, layouts, inside.rank(), support::two_shapes(), options};
  auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
  for (int step = 0; step < steps; ++step) {
    auto& units = result.steps.emplace_back();
    for (auto const layer : fssdp::first_n<layer_id>(layouts.layers())) {
      support::write_gradients(layouts, layer, inside.rank(), between.rank().value(),
                               static_cast<std::uint64_t>(step), gradients);
      exchange.average(layer, gradients, 0.5);
      result.bytes_promised += exchange.bytes_sent(layer);
      support::read_units(layouts, layer, inside.rank(), gradients, units);
    }
    exchange.advance();
    if (later == nullptr || step != steps / 2) continue;
    auto const plan = fssdp::reshard_plan{layouts, *later};
    fssdp::reshard(inside, plan, fssdp::bytes_of(exchange.kept()));
    layouts = *later;
    exchange.reshard(layouts);
  }
  result.bytes_sent = counted.counts().bytes_sent;
  return result;
}

/// The averages of all ranks of a group together.
[[nodiscard]] std::vector<by_unit> of_group(std::vector<outcome> const& all,
                                            hybrid_groups const& groups, int group) {
  auto steps = std::vector<by_unit>(all.front().steps.size());
  for (auto const rank : fssdp::first_n<rank_id>(groups.ranks_per_group()))
    for (std::size_t step = 0; step < steps.size(); ++step)
      steps[step].merge(by_unit{all[groups.rank(group_id{group}, rank).index()].steps[step]});
  return steps;
}

[[nodiscard]] std::vector<outcome> trained(hybrid_groups const& groups,
                                           owned_layouts const& layouts,
                                           gradient_exchange_options const& options, int steps,
                                           owned_layouts const* later = nullptr) {
  auto world = fssdp::thread_world{groups.ranks()};
  return support::on_groups(world, groups, [&](auto&, auto& inside, auto& between) {
    return run(inside, between, layouts, options, steps, later);
  });
}

}  // namespace

TEST_CASE("every rank is in one group and one set of counterparts") {
  for (auto const& groups :
       {hybrid_groups{{.groups = 3, .ranks_per_group = 2}},
        hybrid_groups{fssdp::topology{
            {fssdp::node_id{1}, fssdp::node_id{0}, fssdp::node_id{1}, fssdp::node_id{0}}, {{}}}}}) {
    for (auto const rank : fssdp::first_n<rank_id>(groups.ranks()))
      CHECK(groups.rank(groups.group(rank), groups.rank_in_group(rank)) == rank);
    auto world = fssdp::thread_world{groups.ranks()};
    auto const seen =
        support::on_groups(world, groups, [&](auto& comm, auto& inside, auto& between) {
          auto const rank = comm.rank();
          auto const fits = inside.rank() == groups.rank_in_group(rank) &&
                            inside.size() == groups.ranks_per_group() &&
                            between.rank().value() == groups.group(rank).value() &&
                            between.size() == groups.groups();
          return fits ? 1 : 0;
        });
    CHECK(std::ranges::all_of(seen, [](int fits) { return fits == 1; }));
  }
  CHECK_THROWS_AS(hybrid_groups({.groups = 0}), fssdp::argument_error);
  CHECK_THROWS_AS(hybrid_groups({.groups = 1 << 16, .ranks_per_group = 1 << 16}),
                  fssdp::argument_error);
  CHECK_THROWS_AS(hybrid_groups(fssdp::topology{
                      {fssdp::node_id{0}, fssdp::node_id{0}, fssdp::node_id{1}}, {{}}}),
                  fssdp::argument_error);
}

TEST_CASE("a full exchange is the average over groups") {
  auto const groups = hybrid_groups{{.groups = 3, .ranks_per_group = 2}};
  auto const all = trained(groups, support::owners_by_chance(experts, 2, 1), {}, 2);
  auto const found = of_group(all, groups, 1);
  REQUIRE(found[1].size() == 2 * experts * 2);
  for (auto const& [unit, values] : found[1]) {
    auto const [layer, expert, tensor] = unit;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto sum = 0.0F;
      for (int g = 0; g < 3; ++g) sum += support::gradient_at(g, 1, layer, expert, tensor, i);
      REQUIRE(values[i] == sum * (1.0F / 3));
    }
  }
}

TEST_CASE("all groups get the same bits, by as many bytes as promised, whatever the method") {
  for (auto const& options : all_methods()) {
    CAPTURE(options.compressor.description(), static_cast<int>(options.memory));
    for (int count : {2, 3}) {
      auto const groups = hybrid_groups{{.groups = count, .ranks_per_group = 2}};
      auto const all = trained(groups, support::owners_by_chance(experts, 2, 2), options, 6);
      auto const first = of_group(all, groups, 0);
      for (int g = 1; g < count; ++g) REQUIRE(of_group(all, groups, g) == first);
      auto const depends_on_elements = options.compressor.description().starts_with("threshold");
      for (auto const& one : all) {
        CAPTURE(count, one.bytes_sent, one.bytes_promised);
        CHECK((depends_on_elements ? one.bytes_sent <= one.bytes_promised
                                   : one.bytes_sent == one.bytes_promised));
      }
    }
  }
}

TEST_CASE("DeMo: what has been sent leaves the momentum, the rest stays") {
  auto const groups = hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const layouts = owned_layouts{{{{.ranks = 1}, {rank_id{0}}}}};
  auto const given = std::vector<std::vector<float>>{{1, 2, 3, 4, -1, 0.5F, 0, 2},
                                                     {0.5F, -1, 2, 1, 3, -2, 1, 0.25F}};
  auto world = fssdp::thread_world{2};
  auto const updates = support::on_groups(world, groups, [&](auto&, auto&, auto& between) {
    auto exchange = gradient_exchange{
        between,
        layouts,
        rank_id{0},
        {{1, 8}},
        fssdp::demo(fssdp::top_dct_compressor{{.rows = 1, .columns = 4, .kept = 2}})};
    auto gradients = fssdp::expert_buffer<float>{1, std::vector<std::size_t>{8}};
    auto all = std::vector<std::vector<float>>{};
    for (int step = 0; step < 2; ++step) {
      auto const values = gradients.tensors()[0][0];
      std::ranges::copy(given[between.rank().index()], values.begin());
      exchange.average(layer_id{0}, gradients, 0.1);
      exchange.advance();
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  });
  // bloc97/DeMo: parameters after both steps, over a learning rate of 0.1
  CHECK(updates[0] ==
        std::vector<std::vector<float>>{{1, -1, 1, 1, 1, -1, -1, 1}, {1, 1, 1, 1, 1, -1, 1, 1}});
  CHECK(updates[1] == updates[0]);
}

TEST_CASE("over all steps, averages and residuals add up to the gradients") {
  constexpr auto steps = 9;
  auto const groups = hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const layouts = support::owners_by_chance(experts, 1, 1);
  auto const methods = std::vector<any_compressor>{
      fssdp::codec_compressor<fssdp::int8_codec>{}, fssdp::low_rank_compressor{.rank = 2},
      fssdp::strided_compressor{4}, fssdp::random_compressor{0.25}};
  for (auto const& compressor : methods) {
    CAPTURE(compressor.description());
    auto world = fssdp::thread_world{2};
    struct sums {
      std::vector<double> averaged;
      std::vector<double> left;
    };
    auto const all = support::on_groups(world, groups, [&](auto&, auto&, auto& between) {
      auto exchange = gradient_exchange{
          between, layouts, rank_id{0}, support::two_shapes(), {.compressor = compressor}};
      auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
      auto result = sums{std::vector<double>(480), std::vector<double>(480)};
      for (std::uint64_t step = 0; step < steps; ++step) {
        support::write_gradients(layouts, layer_id{0}, rank_id{0}, between.rank().value(), step,
                                 gradients);
        exchange.average(layer_id{0}, gradients);
        exchange.advance();
        for (std::size_t i = 0; i < 480; ++i) result.averaged[i] += gradients.tensors()[0][1][i];
      }
      for (std::size_t i = 0; i < 480; ++i) result.left[i] = exchange.kept().tensors()[0][1][i];
      return result;
    });
    auto furthest = 0.0;
    auto most_left = 0.0;
    for (std::size_t i = 0; i < 480; ++i) {
      auto sum = all[0].averaged[i] + (all[0].left[i] + all[1].left[i]) / 2;
      for (std::uint64_t step = 0; step < steps; ++step)
        sum -= (double{support::gradient_at(0, step, 0, 1, 0, i)} +
                support::gradient_at(1, step, 0, 1, 0, i)) /
               2;
      furthest = std::max(furthest, std::abs(sum));
      most_left = std::max(most_left, std::abs(all[0].left[i]));
    }
    CHECK(furthest < 1e-4);
    CHECK(most_left > 1e-3);
  }
}

TEST_CASE("no bit depends on who owns what, nor on owners that change on the way") {
  auto const groups = hybrid_groups{{.groups = 2, .ranks_per_group = 3}};
  auto const alone = hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const first = support::owners_by_chance(experts, 3, 3);
  auto const later = support::owners_by_chance(experts, 3, 4);
  for (auto options : all_methods()) {
    CAPTURE(options.compressor.description(), static_cast<int>(options.memory));
    auto const base =
        of_group(trained(alone, support::owners_by_chance(experts, 1, 1), options, 5), alone, 0);
    REQUIRE(of_group(trained(groups, first, options, 5), groups, 1) == base);
    options.slots = 2 * experts;  // any owners have room
    REQUIRE(of_group(trained(groups, first, options, 5, &later), groups, 0) == base);
  }
}

TEST_CASE("a rank that compresses less makes all groups disagree, before a gradient changes") {
  auto const groups = hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const layouts = support::owners_by_chance(experts, 1, 1);
  struct difference {
    char const* what;
    gradient_exchange_options options;
    double rate = 1;
    std::vector<std::uint64_t> loads = {};
    std::uint64_t step = 0;
  };
  auto const base = fssdp::demo(fssdp::top_dct_compressor{});
  auto other = std::vector<difference>{};
  other.push_back({"kept", fssdp::demo(fssdp::top_dct_compressor{{.kept = 5}})});
  other.push_back({"method", fssdp::demo(fssdp::strided_compressor{})});
  other.push_back({"decay", base});
  other.back().options.decay = 0.99;
  other.push_back({"sign", base});
  other.back().options.sign = false;
  other.push_back({"seed", base});
  other.back().options.seed = 1;
  other.push_back({"rate", base, 0.5});
  other.push_back({"loads", base, 1, std::vector<std::uint64_t>(experts, 1)});
  other.push_back({"step", base, 1, {}, 4});
  for (auto const& odd : other) {
    CAPTURE(odd.what);
    auto world = fssdp::thread_world{{.ranks = 2, .deadline = 2s}};
    auto changed = std::vector<char>(2);
    auto const end = support::fallout_of(world, [&](thread_communicator& comm) {
      auto two = fssdp::split(comm, groups);
      auto const is_odd = comm.rank() == rank_id{1};
      auto exchange = gradient_exchange{two.between, layouts, rank_id{0}, support::two_shapes(),
                                        is_odd ? odd.options : base};
      if (is_odd) exchange.resume(odd.step);
      auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
      support::write_gradients(layouts, layer_id{0}, rank_id{0}, 0, 0, gradients);
      auto before = by_unit{};
      support::read_units(layouts, layer_id{0}, rank_id{0}, gradients, before);
      try {
        exchange.average(layer_id{0}, gradients, is_odd ? odd.rate : 1,
                         is_odd ? odd.loads : std::vector<std::uint64_t>{});
      } catch (...) {
        auto after = by_unit{};
        support::read_units(layouts, layer_id{0}, rank_id{0}, gradients, after);
        changed[comm.rank().index()] = before == after ? 0 : 1;
        throw;
      }
    });
    auto disagree = 0;
    for (auto const& thrown : end.of_rank) {
      REQUIRE(thrown != nullptr);
      disagree += support::is<fssdp::ranks_disagree>(thrown) ? 1 : 0;
    }
    CHECK(disagree >= 1);
    CHECK(changed == std::vector<char>{0, 0});
  }
}

TEST_CASE("an expert without tokens in any group does not move, and costs no bytes") {
  auto const groups = hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const layouts = support::owners_by_chance(experts, 1, 1);
  auto loads = std::vector<std::uint64_t>(experts, 9);
  loads[3] = 0;
  for (auto const& options : all_methods()) {
    CAPTURE(options.compressor.description());
    auto world = fssdp::thread_world{2};
    auto const moved = support::on_groups(world, groups, [&](auto&, auto&, auto& between) {
      auto counted = fssdp::counting{between};
      auto exchange =
          gradient_exchange{counted, layouts, rank_id{0}, support::two_shapes(), options};
      auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
      auto sum = 0.0;
      auto others = 0.0;
      for (std::uint64_t step = 0; step < 4; ++step) {
        support::write_gradients(layouts, layer_id{0}, rank_id{0}, between.rank().value(), step,
                                 gradients);
        exchange.average(layer_id{0}, gradients, 1,
                         step == 0 ? std::vector<std::uint64_t>{} : loads);
        exchange.advance();
        if (step == 0) continue;
        for (auto const& tensor : gradients.tensors()) {
          for (auto const value : tensor[3]) sum += std::abs(value);
          for (auto const value : tensor[2]) others += std::abs(value);
        }
      }
      auto const all = exchange.bytes_sent(layer_id{0});
      auto const expected = all + 3 * all * (experts - 1) / experts;
      auto const sent = counted.counts().bytes_sent;
      auto const depends_on_elements = options.compressor.description().starts_with("threshold");
      auto const fits = sum == 0 && others > 0 && sent <= expected + 64 &&
                        (depends_on_elements || sent + 64 >= expected);
      return fits ? 1 : 0;
    });
    CHECK(moved == std::vector<int>{1, 1});
  }
}

TEST_CASE("NaN in one expert of one group appears in that expert only, in all groups") {
  auto const groups = hybrid_groups{{.groups = 2, .ranks_per_group = 1}};
  auto const layouts = support::owners_by_chance(experts, 1, 1);
  for (auto const& options : all_methods()) {
    CAPTURE(options.compressor.description(), static_cast<int>(options.memory));
    auto world = fssdp::thread_world{2};
    auto const seen = support::on_groups(world, groups, [&](auto&, auto&, auto& between) {
      auto exchange =
          gradient_exchange{between, layouts, rank_id{0}, support::two_shapes(), options};
      auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
      auto in_its_expert = false;
      auto elsewhere = false;
      for (std::uint64_t step = 0; step < 6; ++step) {  // until all elements have been sent
        support::write_gradients(layouts, layer_id{0}, rank_id{0}, between.rank().value(), step,
                                 gradients);
        if (step == 0 && between.rank() == rank_id{1})
          gradients.tensors()[0][2][77] = std::numeric_limits<float>::quiet_NaN();
        exchange.average(layer_id{0}, gradients);
        exchange.advance();
        for (auto const& tensor : gradients.tensors())
          for (std::size_t slot = 0; slot < tensor.slots; ++slot)
            for (auto const value : tensor[slot])
              (slot == 2 ? in_its_expert : elsewhere) |= std::isnan(value);
      }
      return std::pair{in_its_expert, elsewhere};
    });
    for (auto const& [in_its_expert, elsewhere] : seen) {
      auto const may_miss = options.compressor.description().starts_with("random");
      CHECK((in_its_expert || may_miss));
      CHECK(!elsewhere);
    }
  }
}

TEST_CASE("gradients of another shape, and layers that do not exist, are errors that name them") {
  auto world = fssdp::thread_world{1};
  auto const texts = support::on_all_ranks(world, [](thread_communicator& comm) {
    auto const layouts = support::owners_by_chance(experts, 1, 1);
    auto exchange = gradient_exchange{comm, layouts, rank_id{0}, support::two_shapes()};
    auto list = std::vector<std::string>{};
    auto const refusal = [&](layer_id layer, std::size_t slots, std::size_t elements,
                             std::vector<std::uint64_t> const& loads) {
      auto gradients = fssdp::expert_buffer<float>{slots, std::vector<std::size_t>{elements, 37}};
      try {
        exchange.average(layer, gradients, 1, loads);
      } catch (fssdp::argument_error const& error) {
        list.emplace_back(error.what());
      }
    };
    refusal(layer_id{2}, experts, 480, {});
    refusal(layer_id{0}, 3, 480, {});
    refusal(layer_id{0}, experts, 481, {});
    refusal(layer_id{0}, experts, 480, {1, 2});
    return list;
  });
  CHECK(texts[0] ==
        std::vector<std::string>{"gradient_exchange: layer 2; expected 0 to 1",
                                 "gradient_exchange: tensor 0 is [3, 480]; expected [7, 480]",
                                 "gradient_exchange: tensor 0 is [7, 481]; expected [7, 480]",
                                 "gradient_exchange: average with 2 loads; expected 7, one per "
                                 "expert, or none"});
}
