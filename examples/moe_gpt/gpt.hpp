// SPDX-License-Identifier: Apache-2.0
/// The model: embedding, blocks of attention and experts, head; forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attention.hpp"
#include "dense_part.hpp"
#include "embedding.hpp"
#include "expert_arena.hpp"
#include "fssdp/runtime/materializer.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "head.hpp"
#include "layer_norm.hpp"
#include "math.hpp"
#include "model_shape.hpp"
#include "moe_layer.hpp"

namespace moe_gpt {

/// One block: x + attention(norm(x)), then that plus experts(norm(that)).
template <class Real>
struct gpt_block {
  moe_layer<Real> moe;
  fssdp::expert_loads loads = {};  ///< of all micro-batches of a step
  std::vector<Real> input = {};    ///< [rows, d_model], as all below
  std::vector<Real> normal1 = {};  ///< what attention sees
  std::vector<Real> middle = {};   ///< after attention
  std::vector<Real> normal2 = {};  ///< what the experts see
  layer_norm_activations<Real> norm1 = {};
  attention_activations<Real> attention = {};
  layer_norm_activations<Real> norm2 = {};
};

/// Losses are averaged over the whole batch: `global_tokens` is what all ranks see together.
struct batch_scale {
  std::size_t global_tokens = 0;
  double balance = 0;  ///< coefficient of the auxiliary loss
};

/// Whether replicas are added once the router has chosen.
enum class calibration_rule { off, on };

/// Which part of a batch goes through the model, and what follows.
struct micro_batch {
  int index = 0;
  int count = 1;
};

/// Every function that takes a communicator is called by all ranks, also without a sequence.
template <class Real>
class gpt {
 public:
  /// @param streamed what the experts' parameters and gradients go through; tokens have another
  /// @param memory where what this rank owns lies
  template <fssdp::communicator Streamed>
  gpt(model_shape const& shape, std::uint64_t seed, Streamed& streamed,
      expert_layouts const& layouts, fssdp::materializer_policy const& policy,
      fssdp::materializer_options const& options, shard_memory const& memory = {})
      : shape_{shape},
        dense_{shape,           seed,
               streamed.rank(), options.topology,
               memory,          {policy.gather_coding, policy.reduce_coding}},
        arena_{shape, seed, streamed.rank(), layouts, memory},
        experts_{streamed,
                 fssdp::expert_shards{layouts, expert_elements(shape.d_model, shape.d_ff()),
                                      arena_.shard().weights(), arena_.shard().gradients()},
                 policy, options},
        trace_{options.trace} {
    for (int layer = 0; layer < layouts.layers(); ++layer)
      blocks_.push_back({moe_layer<Real>{shape, options.topology, fssdp::layer_id{layer},
                                         options.trace, options.routing}});
  }

  [[nodiscard]] model_shape const& shape() const { return shape_; }
  [[nodiscard]] dense_part<Real>& dense() { return dense_; }
  [[nodiscard]] expert_arena<Real>& arena() { return arena_; }
  [[nodiscard]] fssdp::materializer& experts() { return experts_; }
  [[nodiscard]] std::vector<gpt_block<Real>>& blocks() { return blocks_; }

  [[nodiscard]] std::size_t parameters() const {
    auto per_expert = std::size_t{0};
    for (auto const n : expert_elements(shape_.d_model, shape_.d_ff())) per_expert += n;
    return dense_.layout().elements() + shape_.layers * shape_.experts * per_expert;
  }

  /// Experts and their moments go to other owners.
  void reshard(expert_layouts const& next) {
    experts_.reshard(next, arena_.shard().moves());
    arena_.shard().lies_as(next);
  }

  /// The logits [rows, 256] for sequences of shape.seq bytes, one after the other.
  template <fssdp::communicator Comm>
  std::span<Real> forward(Comm& comm, std::span<std::uint8_t const> bytes) {
    auto const logits = forward(comm, bytes, 0, calibration_rule::off);
    experts_.release(last_layer(), 0);
    return logits;
  }

  /// The summed loss of this rank's sequences, in nats. Gradients add up over the micro-batches of
  /// a step; after the last one those of the experts are on their way to the owners, the dense ones
  /// are left for `reduce`.
  /// @param between is called between the two passes
  template <fssdp::communicator Comm>
  double forward_backward(Comm& comm, std::span<std::uint8_t const> bytes,
                          std::span<std::uint8_t const> targets, batch_scale const& scale,
                          micro_batch const& which = {},
                          calibration_rule calibrates = calibration_rule::off,
                          std::function<void()> const& between = {}) {
    if (which.index == 0) dense_.clear_gradients();
    auto const forward_user = 2 * which.index;
    auto const first = which.index == 0 ? calibrates : calibration_rule::off;
    auto const logits = forward(comm, bytes, forward_user, first);
    for (auto const layer : all_layers()) {
      auto& block = blocks_[layer.index()];
      experts_.record(layer, block.moe.loads(), block.moe.device_loads());
      if (which.index == 0) block.loads.assign(shape_.experts, 0);
      for (std::size_t e = 0; e < shape_.experts; ++e) block.loads[e] += block.moe.loads()[e];
    }
    auto const loss = cross_entropy(targets, logits, 1 / static_cast<double>(scale.global_tokens));
    if (between) between();
    backward(comm, bytes, scale, which, forward_user);
    return loss;
  }

 private:
  [[nodiscard]] attention_shape attention_of(std::span<std::uint8_t const> bytes) const {
    return {.sequences = bytes.size() / shape_.seq,
            .seq = shape_.seq,
            .d_model = shape_.d_model,
            .heads = shape_.heads};
  }

  [[nodiscard]] fssdp::layer_id last_layer() const {
    return fssdp::layer_id{static_cast<int>(blocks_.size()) - 1};
  }
  [[nodiscard]] auto all_layers() const {
    return fssdp::first_n<fssdp::layer_id>(static_cast<int>(blocks_.size()));
  }

  [[nodiscard]] auto computing(fssdp::static_text what, fssdp::layer_id layer) {
    return fssdp::trace_range{&trace_, fssdp::compute_track, what, {.layer = layer.value()}};
  }

  /// Leaves the last layer acquired: its backward pass comes next.
  template <fssdp::communicator Comm>
  std::span<Real> forward(Comm& comm, std::span<std::uint8_t const> bytes, int user,
                          calibration_rule calibrates) {
    auto const weights = dense_.weights();
    auto const size = bytes.size() * shape_.d_model;
    experts_.prefetch(fssdp::layer_id{0});
    x_.resize(size);
    embed<Real>(weights.embedding, bytes, shape_.seq, x_);
    for (auto const layer : all_layers()) {
      auto& block = blocks_[layer.index()];
      auto const& w = weights.layers[layer.index()];
      for (auto* values : {&block.normal1, &block.middle, &block.normal2}) values->resize(size);
      auto attending = computing("attention", layer);
      block.input = x_;
      layer_norm_forward<Real>(w.norm1, block.input, block.normal1, block.norm1);
      attention_forward<Real>(attention_of(bytes), w.attention, block.normal1, block.middle,
                              block.attention);
      add<Real>(block.input, block.middle);
      layer_norm_forward<Real>(w.norm2, block.middle, block.normal2, block.norm2);
      attending.end();
      auto const counts = block.moe.choose(comm, w.router, block.normal2);
      experts_.acquire(layer, user);
      if (calibrates == calibration_rule::on) (void)experts_.calibrate(layer, counts);
      block.moe.forward(comm, counts, experts_.where(layer), experts_.experts<Real>(layer),
                        block.normal2, x_);
      if (layer != last_layer()) experts_.release(layer, user);
      add<Real>(block.middle, x_);
    }
    normal_.resize(size);
    logits_.resize(bytes.size() * byte_values);
    layer_norm_forward<Real>(weights.norm, x_, normal_, norm_);
    head_forward<Real>(weights.head, normal_, logits_);
    return logits_;
  }

  template <fssdp::communicator Comm>
  void backward(Comm& comm, std::span<std::uint8_t const> bytes, batch_scale const& scale,
                micro_batch const& which, int forward_user) {
    auto const weights = dense_.weights();
    auto const gradients = dense_.gradients();
    auto const user = forward_user + 1;
    dx_.assign(x_.size(), Real{0});
    d_branch_.resize(x_.size());
    d_normal_.resize(x_.size());
    head_backward<Real>(weights.head, normal_, logits_, d_normal_, gradients.head);
    layer_norm_backward<Real>(weights.norm, x_, d_normal_, norm_, dx_, gradients.norm);
    for (auto layer = last_layer(); layer.value() >= 0;
         layer = fssdp::layer_id{layer.value() - 1}) {
      auto& block = blocks_[layer.index()];
      auto const& w = weights.layers[layer.index()];
      auto const& g = gradients.layers[layer.index()];
      experts_.acquire(layer, user, fssdp::training_pass::backward);
      if (layer == last_layer()) experts_.release(layer, forward_user);
      block.moe.backward(comm, experts_.experts<Real>(layer), experts_.partials<Real>(layer),
                         w.router, block.normal2, dx_, scale.balance, scale.global_tokens,
                         d_branch_, g.router);
      experts_.release(layer, user);
      if (which.index + 1 == which.count) experts_.reduce(layer);
      auto const attending = computing("attention backward", layer);
      layer_norm_backward<Real>(w.norm2, block.middle, d_branch_, block.norm2, dx_, g.norm2);
      attention_backward<Real>(attention_of(bytes), w.attention, block.normal1, dx_,
                               block.attention, d_branch_, g.attention, attention_scratch_);
      layer_norm_backward<Real>(w.norm1, block.input, d_branch_, block.norm1, dx_, g.norm1);
    }
    embed_backward<Real>(bytes, shape_.seq, dx_, gradients.embedding);
  }

  model_shape shape_;
  dense_part<Real> dense_;
  expert_arena<Real> arena_;
  fssdp::materializer experts_;
  std::vector<gpt_block<Real>> blocks_;
  std::vector<Real> x_, normal_, dx_, d_branch_, d_normal_;  // [rows, d_model]
  std::vector<Real> logits_;                                 // [rows, 256]
  layer_norm_activations<Real> norm_;
  attention_scratch<Real> attention_scratch_;
  fssdp::trace_output trace_;
};

}  // namespace moe_gpt
