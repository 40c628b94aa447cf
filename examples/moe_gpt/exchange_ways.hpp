// SPDX-License-Identifier: Apache-2.0
/// The ways: gradients every step, parameters after rounds, parameters a round late.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "exchange_way.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"
#include "fssdp/stream/host_stream.hpp"

namespace moe_gpt {

/// Calls visit(layer, shard of it) for the experts of all layers.
template <class Visit>
void for_each_layer(exchange_place const& at, std::span<fssdp::expert_tensor<float> const> arena,
                    Visit visit) {
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(at.layouts.layers()))
    visit(layer, fssdp::layer_shard(at.layouts, layer, at.rank, arena));
}

/// HSDP, DeMo, PowerSGD and their kin.
class gradient_way final : public exchange_way {
 public:
  /// @param adapt_every steps between two choices of compressors; 0: there is none
  gradient_way(exchange_place at, fssdp::gradient_exchange_options const& options, int adapt_every)
      : at_{std::move(at)},
        adapt_every_{adapt_every},
        experts_{at_.between, at_.layouts, at_.rank, at_.expert_shapes, options},
        dense_{at_.between, at_.chunks, at_.rank, at_.chunk_shape, options} {}

  void average(owned_tensors const& gradients, double rate,
               std::span<fssdp::expert_loads const> loads) override {
    auto const adapts = adapt_every_ > 0 && (steps_ + 1) % adapt_every_ == 0;
    if (adapts) experts_.measure();
    for_each_layer(at_, gradients.experts, [&](fssdp::layer_id layer, auto const& shard) {
      auto const of_all = loads.empty() ? fssdp::expert_loads{}
                                        : fssdp::all_reduce(at_.between, loads[layer.index()]);
      experts_.average(layer, shard, rate, of_all);
    });
    dense_.average(fssdp::layer_id{0}, gradients.dense, rate);
    experts_.advance();
    dense_.advance();
    if (adapts) experts_.choose_compressors(at_.inside);
    ++steps_;
    at_.settled();
  }
  std::vector<kept_part> kept() override {
    return {{"left", &experts_.kept(), &dense_.kept(), 0},
            {"factor", &experts_.kept(), &dense_.kept(), 1, true}};
  }
  /// How many exchanges there have been, then which compressor each tensor has.
  std::vector<double> position() override {
    auto list = std::vector<double>{static_cast<double>(experts_.step())};
    for_each_tensor([&](fssdp::layer_id layer, std::size_t k) {
      list.push_back(static_cast<double>(experts_.compressor_of(layer, k)));
    });
    return list;
  }
  void resume(std::span<double const> position) override {
    experts_.resume(static_cast<std::uint64_t>(position[0]));
    dense_.resume(static_cast<std::uint64_t>(position[0]));
    steps_ = static_cast<int>(position[0]);
    auto at = std::size_t{1};
    for_each_tensor([&](fssdp::layer_id layer, std::size_t k) {
      experts_.take_compressor(layer, k, static_cast<std::size_t>(position[at++]));
    });
  }
  void reshard(expert_layouts const& next) override {
    at_.layouts = next;
    experts_.reshard(next);
  }

 private:
  template <class Visit>
  void for_each_tensor(Visit visit) const {
    for (auto const layer : fssdp::first_n<fssdp::layer_id>(at_.layouts.layers()))
      for (std::size_t k = 0; k < at_.expert_shapes.size(); ++k) visit(layer, k);
  }

  exchange_place at_;
  int adapt_every_;
  int steps_ = 0;
  fssdp::gradient_exchange experts_;
  fssdp::gradient_exchange dense_;
};

/// How long rounds are, and which part of the model is exchanged when.
struct round_rule {
  fssdp::quadratic length;     ///< of the whole model
  fssdp::staggered fragments;  ///< of layers in turn, if there are more than one
  std::uint64_t steps = 1;     ///< of the training
};

/// Local SGD, QSR, DiLoCo; Streaming DiLoCo, where layers are exchanged in turn while groups train
/// on: layer l is in fragment l modulo their number, dense parameters in the first.
class round_way final : public exchange_way {
 public:
  round_way(exchange_place at, fssdp::parameter_exchange_options options, round_rule const& rule)
      : at_{std::move(at)},
        rule_{rule},
        experts_{at_.between, at_.layouts, at_.rank, at_.expert_shapes,
                 with_stream(options, streams() ? &stream_ : nullptr)},
        dense_{at_.between, at_.chunks, at_.rank, at_.chunk_shape,
               with_stream(options, streams() ? &stream_ : nullptr)} {}

  void begin(owned_tensors const& weights) override {
    for_each_layer(at_, weights.experts,
                   [&](fssdp::layer_id layer, auto const& shard) { experts_.begin(layer, shard); });
    dense_.begin(only, weights.dense);
  }
  void end_step(owned_tensors const& weights, int steps, double rate) override {
    auto const done = static_cast<std::uint64_t>(steps);
    if (streams()) {
      auto const turn = rule_.fragments(done, rule_.steps);
      if (turn.applied >= 0) apply(weights, turn.applied);
      if (turn.sent >= 0) send(weights, turn.sent, done);
      if (rule_.fragments.delay == 0 && turn.sent >= 0) apply(weights, turn.sent);
      return;
    }
    if (left_ == 0)
      left_ = rule_.length({.step = done - 1, .steps = rule_.steps, .learning_rate = rate});
    if (--left_ == 0) synchronize(weights, done);
  }
  void drain(owned_tensors const& weights) override {
    for (int fragment = 0; fragment < rule_.fragments.fragments; ++fragment)
      apply(weights, fragment);
  }
  void finish(owned_tensors const& weights) override {
    drain(weights);
    if (streams()) synchronize(weights, rule_.steps);
  }
  std::vector<kept_part> kept() override {
    auto parts =
        std::vector<kept_part>{{"left", &experts_.residuals(), &dense_.residuals(), 0},
                               {"factor", &experts_.residuals(), &dense_.residuals(), 1, true},
                               {"anchor", &experts_.kept(), &dense_.kept(), 0}};
    if (dense_.kept().tensors().size() > 1)
      parts.push_back({"velocity", &experts_.kept(), &dense_.kept(), 1});
    return parts;
  }
  std::vector<double> position() override {
    return {static_cast<double>(experts_.round()), static_cast<double>(left_)};
  }
  void resume(std::span<double const> position) override {
    experts_.resume(static_cast<std::uint64_t>(position[0]));
    dense_.resume(static_cast<std::uint64_t>(position[0]));
    left_ = static_cast<std::uint64_t>(position[1]);
  }
  void reshard(expert_layouts const& next) override {
    at_.layouts = next;
    experts_.reshard(next);
  }

 private:
  static constexpr auto only = fssdp::layer_id{0};  // of the dense parameters

  [[nodiscard]] static fssdp::parameter_exchange_options with_stream(
      fssdp::parameter_exchange_options options, fssdp::host_stream* stream) {
    options.stream = stream;
    return options;
  }
  [[nodiscard]] bool streams() const {
    return rule_.fragments.fragments > 1 || rule_.fragments.delay > 0;
  }
  /// Calls visit(exchange, layer, shard) for the layers of a fragment.
  template <class Visit>
  void for_fragment(owned_tensors const& weights, int fragment, Visit visit) {
    for_each_layer(at_, weights.experts, [&](fssdp::layer_id layer, auto const& shard) {
      if (layer.value() % rule_.fragments.fragments == fragment) visit(experts_, layer, shard);
    });
    if (fragment == 0) visit(dense_, only, weights.dense);
  }
  void send(owned_tensors const& weights, int fragment, std::uint64_t step) {
    for_fragment(weights, fragment, [&](auto& exchange, fssdp::layer_id layer, auto const& shard) {
      exchange.start(layer, shard, step);
    });
  }
  void apply(owned_tensors const& weights, int fragment) {
    auto any = false;
    for_fragment(weights, fragment, [&](auto& exchange, fssdp::layer_id layer, auto const& shard) {
      if (!exchange.is_under_way(layer)) return;
      exchange.finish(layer, shard);
      any = true;
    });
    if (any) advance();
  }
  void synchronize(owned_tensors const& weights, std::uint64_t step) {
    for (int fragment = 0; fragment < rule_.fragments.fragments; ++fragment)
      for_fragment(weights, fragment,
                   [&](auto& exchange, fssdp::layer_id layer, auto const& shard) {
                     exchange.synchronize(layer, shard, step);
                   });
    advance();
  }
  void advance() {
    experts_.advance();
    dense_.advance();
    at_.settled();
  }

  fssdp::host_stream stream_;  // outlives the exchanges
  exchange_place at_;
  round_rule rule_;
  std::uint64_t left_ = 0;  // steps of the round
  fssdp::parameter_exchange experts_;
  fssdp::parameter_exchange dense_;
};

/// CO2.
class delayed_way final : public exchange_way {
 public:
  delayed_way(exchange_place at, fssdp::delayed_exchange_options options, round_rule const& rule)
      : at_{std::move(at)},
        rule_{rule},
        experts_{at_.between, at_.layouts, at_.rank, at_.expert_shapes, with_stream(options)},
        dense_{at_.between, at_.chunks, at_.rank, at_.chunk_shape, with_stream(options)} {}

  void begin(owned_tensors const& weights) override {
    for_all(weights, [](auto& exchange, fssdp::layer_id layer, auto const& shard) {
      exchange.begin(layer, shard);
    });
  }
  void end_step(owned_tensors const& weights, int steps, double rate) override {
    if (left_ == 0) {
      left_ = rule_.length({.step = static_cast<std::uint64_t>(steps - 1),
                            .steps = rule_.steps,
                            .learning_rate = rate});
      for_all(weights, [](auto& exchange, fssdp::layer_id layer, auto const& shard) {
        exchange.first_step(layer, shard);
      });
    }
    if (--left_ == 0) end_round(weights, static_cast<std::uint64_t>(steps));
  }
  /// One more round without steps, at the end of which the average of the last one is applied.
  void finish(owned_tensors const& weights) override {
    end_round(weights, rule_.steps);
    (void)experts_.kept();  // waits for the exchange
    at_.settled();
  }
  std::vector<kept_part> kept() override {
    return {{"left", &experts_.residuals(), &dense_.residuals(), 0},
            {"factor", &experts_.residuals(), &dense_.residuals(), 1, true},
            {"anchor", &experts_.kept(), &dense_.kept(), 0},
            {"velocity", &experts_.kept(), &dense_.kept(), 1},
            {"arrived", &experts_.kept(), &dense_.kept(), 2}};
  }
  /// What ranks have measured is added up, for the first of them to go on with.
  std::vector<double> position() override {
    auto measured = std::vector<double>{};
    for (auto const& at : {experts_.where(), dense_.where()})
      measured.insert(measured.end(), {at.last.moved, at.last.first_step, at.first_step});
    auto list = fssdp::all_reduce(at_.inside, measured);
    list.insert(list.end(),
                {static_cast<double>(experts_.where().round), static_cast<double>(left_)});
    return list;
  }
  void resume(std::span<double const> position) override {
    auto const share = at_.rank == fssdp::rank_id{0} ? 1.0 : 0.0;
    auto const where = [&](std::size_t first) {
      return fssdp::delayed_exchange::position{
          .round = static_cast<std::uint64_t>(position[6]),
          .last = {.moved = share * position[first], .first_step = share * position[first + 1]},
          .first_step = share * position[first + 2]};
    };
    experts_.resume(where(0));
    dense_.resume(where(3));
    left_ = static_cast<std::uint64_t>(position[7]);
  }
  void reshard(expert_layouts const& next) override {
    at_.layouts = next;
    experts_.reshard(next);
  }

 private:
  [[nodiscard]] fssdp::delayed_exchange_options with_stream(
      fssdp::delayed_exchange_options options) {
    options.stream = &stream_;
    return options;
  }
  template <class Visit>
  void for_all(owned_tensors const& weights, Visit visit) {
    for_each_layer(at_, weights.experts, [&](fssdp::layer_id layer, auto const& shard) {
      visit(experts_, layer, shard);
    });
    visit(dense_, fssdp::layer_id{0}, weights.dense);
  }
  void end_round(owned_tensors const& weights, std::uint64_t step) {
    auto const of_experts = experts_.gap_of_rank();
    auto const of_dense = dense_.gap_of_rank();
    at_.settled();
    auto const gap =
        fssdp::staleness_gap(at_.inside, at_.between,
                             {.moved = of_experts.moved + of_dense.moved,
                              .first_step = of_experts.first_step + of_dense.first_step});
    for_all(weights, [&](auto& exchange, fssdp::layer_id layer, auto const& shard) {
      exchange.synchronize(layer, shard, gap, step);
    });
    experts_.advance();
    dense_.advance();
  }

  fssdp::host_stream stream_;  // outlives the exchanges
  exchange_place at_;
  round_rule rule_;
  std::uint64_t left_ = 0;  // steps of the round
  fssdp::delayed_exchange experts_;
  fssdp::delayed_exchange dense_;
};

}  // namespace moe_gpt
