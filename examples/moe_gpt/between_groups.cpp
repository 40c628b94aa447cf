// SPDX-License-Identifier: Apache-2.0
// The methods behind --between, --sync-every and --outer. No other file compiles them.
#include "between_groups.hpp"

#include "adamw.hpp"
#include "between/exchange.hpp"
#include "between/method.hpp"
#include "exchange_ways.hpp"
#include "expert.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "model_shape.hpp"

namespace moe_gpt {

namespace {

/// The exchange of gradients that --between stands for.
[[nodiscard]] fssdp::gradient_exchange_options exchange_of(options const& chosen) {
  auto const method = between::method_of(chosen.between);
  auto const count = static_cast<std::size_t>(method.number);
  auto result = between::exchange_of(method, chosen.seed);
  result.start = static_cast<std::uint64_t>(chosen.between_start);
  if (chosen.adapt_every == 0) return result;
  if (method.name == "powersgd")
    result.alternatives = {fssdp::low_rank_compressor{.rank = (count + 1) / 2},
                           fssdp::low_rank_compressor{.rank = 2 * count}};
  if (method.name == "demo")
    result.alternatives = {fssdp::top_dct_compressor{{.kept = (count + 1) / 2}},
                           fssdp::top_dct_compressor{{.kept = 2 * count}}};
  return result;
}

/// The four tensors of an expert, or of a slice of it, which is a run.
[[nodiscard]] std::vector<fssdp::unit_shape> shapes_of(options const& chosen, int slices) {
  auto const shape = shape_of(chosen);
  auto shapes = std::vector<fssdp::unit_shape>{{shape.d_model, shape.d_ff()},
                                               {1, shape.d_ff()},
                                               {shape.d_ff(), shape.d_model},
                                               {1, shape.d_model}};
  if (slices > 1)
    for (auto& of : shapes) of = {1, fssdp::slice_elements(of.elements(), slices)};
  return shapes;
}

[[nodiscard]] std::unique_ptr<exchange_way> way_of(options const& chosen,
                                                   exchange_place const& at) {
  auto const gradients = exchange_of(chosen);
  if (chosen.sync_every == 0)
    return std::make_unique<gradient_way>(at, gradients, chosen.adapt_every);
  auto const steps = static_cast<std::uint64_t>(chosen.sync_every);
  auto const rule =
      round_rule{.length = {.alpha = chosen.sync_alpha,
                            .least = steps,
                            .warm_up = static_cast<std::uint64_t>(warm_up_of(chosen.steps))},
                 .fragments = {.fragments = chosen.fragments,
                               .period = steps,
                               .delay = static_cast<std::uint64_t>(chosen.sync_delay)},
                 .steps = static_cast<std::uint64_t>(chosen.steps)};
  if (chosen.outer == outer::co2)
    return std::make_unique<delayed_way>(
        at,
        fssdp::delayed_exchange_options{.compressor = gradients.compressor, .seed = chosen.seed},
        rule);
  return std::make_unique<round_way>(
      at,
      fssdp::parameter_exchange_options{
          .outer = chosen.outer == outer::diloco
                       ? fssdp::outer_update{.rate = chosen.outer_rate,
                                             .momentum = chosen.outer_momentum}
                       : fssdp::outer_update{},
          .compressor = gradients.compressor,
          .mix = chosen.sync_mix,
          .seed = chosen.seed},
      rule);
}

}  // namespace

between_groups::between_groups(group_communicators const& comms, options const& chosen,
                               expert_layouts const& layouts, fssdp::rank_id rank,
                               std::size_t dense_elements)
    : comms_{comms},
      counted_{comms_.exchanges},
      place_{.inside = comms_.inside,
             .between = fssdp::communicator_ref{counted_},
             .layouts = layouts,
             .rank = rank,
             .expert_shapes = shapes_of(chosen, layouts.slices()),
             .chunks = fssdp::layer_stack<fssdp::table_layout>{std::vector{fssdp::as_table(
                 fssdp::block_layout{{.experts = layouts.ranks(), .ranks = layouts.ranks()}})}},
             .chunk_shape = {{1, (dense_elements + static_cast<std::size_t>(layouts.ranks()) - 1) /
                                     static_cast<std::size_t>(layouts.ranks())}},
             .settled = [this] { bytes_ = counted_.counts().bytes_sent; }},
      whole_{expert_elements(shape_of(chosen).d_model, shape_of(chosen).d_ff())},
      dense_elements_{dense_elements},
      averages_gradients_{chosen.sync_every == 0},
      sends_momentum_{averages_gradients_ && exchange_of(chosen).sign},
      way_{way_of(chosen, place_)} {}

std::vector<double> between_groups::mean(std::vector<double> const& mine) {
  auto all = fssdp::all_reduce(comms_.between, mine);
  for (auto& value : all) value /= groups();
  return all;
}

std::vector<fssdp::expert_loads> between_groups::mean(std::vector<fssdp::expert_loads> loads) {
  for (auto& of_layer : loads) {
    of_layer = fssdp::all_reduce(comms_.between, of_layer);
    for (auto& load : of_layer) load /= static_cast<std::uint64_t>(groups());
  }
  return loads;
}

void between_groups::average(owned_tensors const& gradients, double rate, double scale,
                             std::span<fssdp::expert_loads const> loads) {
  for (auto const tensors : {gradients.experts, gradients.dense})
    for (auto const& tensor : tensors)
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        for (auto& value : tensor[slot]) value *= static_cast<float>(scale);
  way_->average(gradients, rate, sends_momentum_ ? loads : std::span<fssdp::expert_loads const>{});
}

void between_groups::reshard(expert_layouts const& next) {
  auto const plan = fssdp::reshard_plan{place_.layouts, next};
  auto moved = std::vector<fssdp::expert_buffer<float>*>{};
  for (auto const& kept : way_->kept()) {
    if (std::ranges::find(moved, kept.experts) != moved.end()) continue;
    moved.push_back(kept.experts);
    fssdp::reshard(comms_.inside, plan, fssdp::bytes_of(*kept.experts));
  }
  way_->reshard(next);
  place_.layouts = next;
}

}  // namespace moe_gpt
