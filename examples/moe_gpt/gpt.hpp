// SPDX-License-Identifier: Apache-2.0
/// The model: embedding, blocks of attention and experts, head; forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention.hpp"
#include "dense_part.hpp"
#include "embedding.hpp"
#include "expert_arena.hpp"
#include "head.hpp"
#include "layer_norm.hpp"
#include "math.hpp"
#include "model_shape.hpp"
#include "moe_layer.hpp"

namespace moe_gpt {

/// One block: x + attention(norm(x)), then that plus experts(norm(that)).
template <class Real, class Wire>
struct gpt_block {
  moe_layer<Real, Wire> moe;
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

/// Every function that takes a communicator is called by all ranks, also without a sequence.
template <class Real, class Wire>
class gpt {
 public:
  gpt(model_shape const& shape, std::uint64_t seed, fssdp::rank_id rank,
      fssdp::topology const& machine, expert_layouts const& layouts)
      : shape_{shape}, dense_{shape, seed, rank, machine}, arena_{shape, seed, rank, layouts} {
    for (auto const layer : fssdp::first_n<fssdp::layer_id>(layouts.layers()))
      blocks_.push_back({moe_layer<Real, Wire>{shape, rank, machine, arena_.layer(layer)}});
  }

  [[nodiscard]] dense_part<Real, Wire>& dense() { return dense_; }
  [[nodiscard]] expert_arena<Real>& arena() { return arena_; }
  [[nodiscard]] std::vector<gpt_block<Real, Wire>>& blocks() { return blocks_; }

  [[nodiscard]] std::size_t parameters() const {
    auto per_expert = std::size_t{0};
    for (auto const n : expert_elements(shape_.d_model, shape_.d_ff())) per_expert += n;
    return dense_.layout().elements() + shape_.layers * shape_.experts * per_expert;
  }

  /// Experts and their moments go to other owners.
  template <fssdp::communicator Comm>
  void reshard(Comm& comm, expert_layouts const& next) {
    arena_.shard().reshard(comm, next);
    auto layer = fssdp::layer_id{0};
    for (auto& block : blocks_) block.moe.experts().move_to(arena_.layer(layer++));
  }

  /// The logits [rows, 256] for sequences of shape.seq bytes, one after the other.
  template <fssdp::communicator Comm>
  std::span<Real> forward(Comm& comm, std::span<std::uint8_t const> bytes) {
    auto const weights = dense_.weights();
    auto const size = bytes.size() * shape_.d_model;
    x_.resize(size);
    embed<Real>(weights.embedding, bytes, shape_.seq, x_);
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      auto& block = blocks_[l];
      for (auto* values : {&block.normal1, &block.middle, &block.normal2}) values->resize(size);
      block.input = x_;
      layer_norm_forward<Real>(weights.layers[l].norm1, block.input, block.normal1, block.norm1);
      attention_forward<Real>(attention_of(bytes), weights.layers[l].attention, block.normal1,
                              block.middle, block.attention);
      add<Real>(block.input, block.middle);
      layer_norm_forward<Real>(weights.layers[l].norm2, block.middle, block.normal2, block.norm2);
      block.moe.forward(comm, weights.layers[l].gate, block.normal2, x_);
      add<Real>(block.middle, x_);
    }
    normal_.resize(size);
    logits_.resize(bytes.size() * byte_values);
    layer_norm_forward<Real>(weights.norm, x_, normal_, norm_);
    head_forward<Real>(weights.head, normal_, logits_);
    return logits_;
  }

  /// The summed loss of this rank's sequences, in nats; its gradients are left for `reduce`.
  template <fssdp::communicator Comm>
  double forward_backward(Comm& comm, std::span<std::uint8_t const> bytes,
                          std::span<std::uint8_t const> targets, batch_scale const& scale) {
    dense_.clear_gradients();
    for (auto& block : blocks_) block.moe.experts().clear_gradients();
    auto const logits = forward(comm, bytes);
    auto const loss = cross_entropy(targets, logits, 1 / static_cast<double>(scale.global_tokens));
    backward(comm, bytes, scale);
    return loss;
  }

 private:
  [[nodiscard]] attention_shape attention_of(std::span<std::uint8_t const> bytes) const {
    return {.sequences = bytes.size() / shape_.seq,
            .seq = shape_.seq,
            .d_model = shape_.d_model,
            .heads = shape_.heads};
  }

  template <fssdp::communicator Comm>
  void backward(Comm& comm, std::span<std::uint8_t const> bytes, batch_scale const& scale) {
    auto const weights = dense_.weights();
    auto const gradients = dense_.gradients();
    dx_.assign(x_.size(), Real{0});
    d_branch_.resize(x_.size());
    d_normal_.resize(x_.size());
    head_backward<Real>(weights.head, normal_, logits_, d_normal_, gradients.head);
    layer_norm_backward<Real>(weights.norm, x_, d_normal_, norm_, dx_, gradients.norm);
    for (auto l = blocks_.size(); l-- > 0;) {
      auto& block = blocks_[l];
      auto const& w = weights.layers[l];
      auto const& g = gradients.layers[l];
      block.moe.backward(comm, w.gate, block.normal2, dx_, scale.balance, scale.global_tokens,
                         d_branch_, g.gate);
      layer_norm_backward<Real>(w.norm2, block.middle, d_branch_, block.norm2, dx_, g.norm2);
      attention_backward<Real>(attention_of(bytes), w.attention, block.normal1, dx_,
                               block.attention, d_branch_, g.attention, attention_scratch_);
      layer_norm_backward<Real>(w.norm1, block.input, d_branch_, block.norm1, dx_, g.norm1);
    }
    embed_backward<Real>(bytes, shape_.seq, dx_, gradients.embedding);
  }

  model_shape shape_;
  dense_part<Real, Wire> dense_;
  expert_arena<Real> arena_;
  std::vector<gpt_block<Real, Wire>> blocks_;
  std::vector<Real> x_, normal_, dx_, d_branch_, d_normal_;  // [rows, d_model]
  std::vector<Real> logits_;                                 // [rows, 256]
  layer_norm_activations<Real> norm_;
  attention_scratch<Real> attention_scratch_;
};

}  // namespace moe_gpt
