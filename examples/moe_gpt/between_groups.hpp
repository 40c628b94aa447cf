// SPDX-License-Identifier: Apache-2.0
/// What crosses between groups of ranks, and when. Inside a group everything is as without groups.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "between_method.hpp"
#include "expert.hpp"
#include "expert_layouts.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "model_shape.hpp"
#include "options.hpp"

namespace moe_gpt {

/// The exchange of gradients that --between stands for.
[[nodiscard]] inline fssdp::gradient_exchange_options exchange_of(options const& chosen) {
  auto const [name, number] = between_method_of(chosen.between);
  auto const count = static_cast<std::size_t>(number);
  auto result = fssdp::gradient_exchange_options{};
  if (name == "bf16") result.compressor = fssdp::codec_compressor<fssdp::bf16_codec>{};
  if (name == "int8") result.compressor = fssdp::codec_compressor<fssdp::int8_codec>{};
  if (name == "terngrad") result.compressor = fssdp::ternary_compressor{};
  if (name == "powersgd") result.compressor = fssdp::low_rank_compressor{.rank = count};
  if (name == "demo") result = fssdp::demo(fssdp::top_dct_compressor{{.kept = count}});
  if (name == "demo-2d")
    result = fssdp::demo(fssdp::top_dct_compressor{{.rows = 64, .columns = 64, .kept = count}});
  if (name == "striding") result = fssdp::demo(fssdp::strided_compressor{count});
  if (name == "random") result = fssdp::demo(fssdp::random_compressor{1.0 / number});
  result.seed = chosen.seed;
  return result;
}

/// What this rank owns: the arena of experts, and its chunk of the dense parameters.
struct owned_tensors {
  std::span<fssdp::expert_tensor<float> const> experts;
  std::span<fssdp::expert_tensor<float> const> dense;
};
/// @throws std::invalid_argument if they are of another type: only floats cross between groups
template <class Real>
[[nodiscard]] owned_tensors owned(fssdp::expert_buffer<Real>& experts,
                                  fssdp::expert_buffer<Real>& dense) {
  if constexpr (std::same_as<Real, float>)
    return {experts.tensors(), dense.tensors()};
  else
    throw std::invalid_argument{"--groups: parameters of another type; expected floats"};
}

/// One rank's part of it: experts, and the chunk of the dense parameters.
class between_groups {
 public:
  between_groups(fssdp::communicator_ref between, options const& chosen,
                 expert_layouts const& layouts, fssdp::rank_id rank, std::size_t dense_elements)
      : between_{between},
        counted_{between_},
        options_{exchange_of(chosen)},
        layouts_{layouts},
        rank_{rank},
        chunks_{std::vector{fssdp::as_table(
            fssdp::block_layout{{.experts = layouts.ranks(), .ranks = layouts.ranks()}})}},
        whole_{expert_elements(shape_of(chosen).d_model, shape_of(chosen).d_ff())},
        dense_elements_{dense_elements},
        alpha_{chosen.sync_alpha},
        every_{static_cast<std::uint64_t>(chosen.sync_every)},
        steps_{static_cast<std::uint64_t>(chosen.steps)} {
    auto const of_experts = shapes_of(chosen, layouts.slices());
    auto const ranks = static_cast<std::size_t>(layouts.ranks());
    auto const of_dense = std::vector<fssdp::unit_shape>{{1, (dense_elements + ranks - 1) / ranks}};
    if (every_ == 0) {
      experts_.emplace(counted_, layouts, rank, of_experts, options_);
      dense_.emplace(counted_, chunks_, rank, of_dense, options_);
    } else {
      auto const outer = chosen.outer == outer::diloco ? fssdp::diloco : fssdp::outer_update{};
      auto const rounds = fssdp::parameter_exchange_options{
          .outer = outer, .compressor = options_.compressor, .seed = chosen.seed};
      expert_rounds_.emplace(counted_, layouts, rank, of_experts, rounds);
      dense_rounds_.emplace(counted_, chunks_, rank, of_dense, rounds);
    }
  }
  between_groups(between_groups const&) = delete;
  between_groups& operator=(between_groups const&) = delete;

  [[nodiscard]] int groups() const { return between_.size(); }
  [[nodiscard]] int group() const { return between_.rank().value(); }
  /// Whether gradients are averaged, and in place of the gradient comes the sign of a momentum:
  /// then the optimizer is plain SGD.
  [[nodiscard]] bool averages_gradients() const { return every_ == 0; }
  [[nodiscard]] bool sends_momentum() const { return averages_gradients() && options_.sign; }
  /// That this rank has sent so far.
  [[nodiscard]] std::uint64_t bytes_sent() const { return counted_.counts().bytes_sent; }

  /// The mean over groups of what each has averaged over its ranks.
  [[nodiscard]] std::vector<double> mean(std::vector<double> const& mine) {
    auto all = fssdp::all_reduce(between_, mine);
    for (auto& value : all) value /= groups();
    return all;
  }

  /// Averages all gradients that this rank owns.
  /// @param scale of the gradients, before
  /// @param loads of the experts of all layers in this group, [layers][experts]
  void average(owned_tensors const& gradients, double rate, double scale,
               std::span<fssdp::expert_loads const> loads) {
    for (auto const tensors : {gradients.experts, gradients.dense})
      for (auto const& tensor : tensors)
        for (std::size_t slot = 0; slot < tensor.slots; ++slot)
          for (auto& value : tensor[slot]) value *= static_cast<float>(scale);
    for (auto const layer : all_layers()) {
      auto const of_all = sends_momentum() ? fssdp::all_reduce(between_, loads[layer.index()])
                                           : fssdp::expert_loads{};
      experts_->average(layer, fssdp::layer_shard(layouts_, layer, rank_, gradients.experts), rate,
                        of_all);
    }
    dense_->average(fssdp::layer_id{0}, gradients.dense, rate);
    experts_->advance();
    dense_->advance();
  }
  /// All groups have equal parameters now.
  void begin(owned_tensors const& weights) {
    if (averages_gradients()) return;
    for (auto const layer : all_layers())
      expert_rounds_->begin(layer, fssdp::layer_shard(layouts_, layer, rank_, weights.experts));
    dense_rounds_->begin(fssdp::layer_id{0}, weights.dense);
  }
  /// The optimizer has done a step: a round may be over.
  void end_step(owned_tensors const& weights, int step, double rate) {
    if (averages_gradients()) return;
    if (left_ == 0)
      left_ = fssdp::quadratic{.alpha = alpha_, .least = every_}(
          {.step = static_cast<std::uint64_t>(step), .steps = steps_, .learning_rate = rate});
    if (--left_ != 0) return;
    for (auto const layer : all_layers())
      expert_rounds_->synchronize(layer,
                                  fssdp::layer_shard(layouts_, layer, rank_, weights.experts));
    dense_rounds_->synchronize(fssdp::layer_id{0}, weights.dense);
    expert_rounds_->advance();
    dense_rounds_->advance();
  }

  /// The mean over groups: what all of them choose owners by.
  [[nodiscard]] std::vector<fssdp::expert_loads> mean(std::vector<fssdp::expert_loads> loads) {
    for (auto& of_layer : loads) {
      of_layer = fssdp::all_reduce(between_, of_layer);
      for (auto& load : of_layer) load /= static_cast<std::uint64_t>(groups());
    }
    return loads;
  }
  /// What is remembered, as parts of a checkpoint: of this group, beside the parts of its model.
  /// @tparam Part saved_part or loaded_part
  template <class Part>
  void add_parts(std::vector<Part>& parts) {
    // of experts there are four tensors for each of these, of the dense parameters one
    auto const add = [&](fssdp::expert_buffer<float>& of_experts,
                         fssdp::expert_buffer<float>& of_dense,
                         std::initializer_list<char const*> names) {
      for (std::size_t n = 0; auto const* const name : names) {
        if (n == of_dense.tensors().size()) return;
        auto const is_factor = std::string_view{name} == "factor";
        add_part(parts, std::string{"between "} + name, name,
                 of_experts.tensors().subspan(4 * n, 4),
                 is_factor ? std::span<std::size_t const>{} : whole_);
        if (auto const chunk = of_dense.tensors()[n]; chunk.elements > 0)
          parts
              .emplace_back(
                  std::string{"dense "} + name,
                  fssdp::block_layout{
                      {.experts = 1, .ranks = chunks_.ranks(), .slices = chunks_.ranks()}},
                  rank_, std::vector<fssdp::whole_tensor>{{"dense", {dense_elements_}}},
                  fssdp::tensor_pattern{"{tensor}.{group}"})
              .add(name, std::span{&chunk, 1});
        ++n;
      }
    };
    if (averages_gradients()) {
      add(experts_->kept(), dense_->kept(), {"left", "factor"});
    } else {
      add(expert_rounds_->residuals(), dense_rounds_->residuals(), {"left", "factor"});
      add(expert_rounds_->kept(), dense_rounds_->kept(), {"anchor", "velocity"});
    }
  }
  /// Where the exchanges are: how many there have been, and the steps left of a round.
  [[nodiscard]] std::array<std::uint64_t, 2> position() const {
    return {averages_gradients() ? experts_->step() : expert_rounds_->round(), left_};
  }
  void resume(std::array<std::uint64_t, 2> const& position) {
    left_ = position[1];
    if (averages_gradients()) {
      experts_->resume(position[0]);
      dense_->resume(position[0]);
    } else {
      expert_rounds_->resume(position[0]);
      dense_rounds_->resume(position[0]);
    }
  }

  /// What is remembered of experts goes to other owners, in all groups alike.
  template <fssdp::communicator Comm>
  void reshard(Comm& inside, expert_layouts const& next) {
    auto const plan = fssdp::reshard_plan{layouts_, next};
    if (averages_gradients()) {
      fssdp::reshard(inside, plan, fssdp::bytes_of(experts_->kept()));
      experts_->reshard(next);
    } else {
      fssdp::reshard(inside, plan,
                     fssdp::bytes_of(expert_rounds_->kept(), expert_rounds_->residuals()));
      expert_rounds_->reshard(next);
    }
    fssdp::synchronize(inside);
    layouts_ = next;
  }

 private:
  /// The four tensors of an expert, or of a slice of it, which is a run.
  [[nodiscard]] static std::vector<fssdp::unit_shape> shapes_of(options const& chosen, int slices) {
    auto const shape = shape_of(chosen);
    auto shapes = std::vector<fssdp::unit_shape>{{shape.d_model, shape.d_ff()},
                                                 {1, shape.d_ff()},
                                                 {shape.d_ff(), shape.d_model},
                                                 {1, shape.d_model}};
    if (slices > 1)
      for (auto& of : shapes) of = {1, fssdp::slice_elements(of.elements(), slices)};
    return shapes;
  }
  /// Those tensors of an arena that there are.
  /// @param whole their elements in a whole expert; empty: as they are, where nothing is sliced
  template <class Part>
  void add_part(std::vector<Part>& parts, std::string name, char const* group,
                std::span<fssdp::expert_tensor<float> const> tensors,
                std::span<std::size_t const> whole) const {
    constexpr auto names = std::array{"w1", "b1", "w2", "b2"};
    auto about = std::vector<fssdp::whole_tensor>{};
    auto views = std::vector<fssdp::expert_tensor<float>>{};
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      if (tensors[k].elements == 0) continue;
      about.push_back({names[k], {whole.empty() ? tensors[k].elements : whole[k]}});
      views.push_back(tensors[k]);
    }
    if (views.empty()) return;
    parts.emplace_back(std::move(name), layouts_, rank_, std::move(about)).add(group, views);
  }

  [[nodiscard]] fssdp::index_range<fssdp::layer_id> all_layers() const {
    return fssdp::first_n<fssdp::layer_id>(layouts_.layers());
  }

  fssdp::communicator_ref between_;
  fssdp::counting<fssdp::communicator_ref> counted_;
  fssdp::gradient_exchange_options options_;
  expert_layouts layouts_;
  fssdp::rank_id rank_;
  fssdp::layer_stack<fssdp::table_layout> chunks_;  // of the dense parameters: one for each rank
  std::array<std::size_t, 4> whole_;                // elements of the tensors of an expert
  std::uint64_t dense_elements_;
  double alpha_;
  std::uint64_t every_;
  std::uint64_t steps_;
  std::uint64_t left_ = 0;  // steps of the round
  std::optional<fssdp::gradient_exchange> experts_;
  std::optional<fssdp::gradient_exchange> dense_;
  std::optional<fssdp::parameter_exchange> expert_rounds_;
  std::optional<fssdp::parameter_exchange> dense_rounds_;
};

}  // namespace moe_gpt
