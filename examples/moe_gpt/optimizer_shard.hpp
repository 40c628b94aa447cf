// SPDX-License-Identifier: Apache-2.0
/// What a rank owns of some parameters: values, gradients and AdamW's moments. There is no second
/// copy of it anywhere.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "adamw.hpp"
#include "dense_parameters.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"

namespace moe_gpt {

/// Where the memory for it comes from.
struct shard_memory {
  std::pmr::memory_resource* values = std::pmr::new_delete_resource();   ///< and of gradients
  std::pmr::memory_resource* moments = std::pmr::new_delete_resource();  ///< both
};

template <class Real, fssdp::shard_layout Layout = fssdp::block_layout>
class optimizer_shard {
 public:
  /// `elements` has the size of each tensor of one whole expert.
  optimizer_shard(Layout const& layout, fssdp::rank_id rank, std::span<std::size_t const> elements,
                  shard_memory const& memory = {})
      : layout_{layout},
        rank_{rank},
        weights_{fssdp::make_shard<Real>(layout, rank, elements, memory.values)},
        gradients_{fssdp::make_shard<Real>(layout, rank, elements, memory.values)},
        first_moments_{fssdp::make_shard<Real>(layout, rank, elements, memory.moments)},
        second_moments_{fssdp::make_shard<Real>(layout, rank, elements, memory.moments)} {}

  [[nodiscard]] Layout const& layout() const { return layout_; }
  [[nodiscard]] fssdp::rank_id rank() const { return rank_; }
  [[nodiscard]] fssdp::expert_buffer<Real>& weights() { return weights_; }
  [[nodiscard]] fssdp::expert_buffer<Real> const& weights() const { return weights_; }
  [[nodiscard]] fssdp::expert_buffer<Real>& gradients() { return gradients_; }
  [[nodiscard]] fssdp::expert_buffer<Real>& first_moments() { return first_moments_; }
  [[nodiscard]] fssdp::expert_buffer<Real>& second_moments() { return second_moments_; }

  /// The sum of the squares of all gradients in this shard.
  [[nodiscard]] double squared_gradients() const {
    auto sum = 0.0;
    for (auto const& tensor : gradients_.tensors())
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        for (auto const g : tensor[slot]) sum += static_cast<double>(g) * static_cast<double>(g);
    return sum;
  }

  /// What goes along when an expert gets another owner; the gradients are done with.
  [[nodiscard]] auto moves() { return fssdp::bytes_of(weights_, first_moments_, second_moments_); }
  /// The experts have got their owners under another layout.
  void lies_as(Layout const& next) { layout_ = next; }

  /// One step of SGD, with weight decay as AdamW's.
  template <class Decays>
  void descend(adamw_options const& options, Decays decays) {
    auto const rate = static_cast<Real>(options.learning_rate);
    for (std::size_t k = 0; k < weights_.tensors().size(); ++k)
      for (std::size_t slot = 0; slot < weights_.slots(); ++slot)
        for (decay_range const& range : decays(k)) {
          auto const shrink =
              range.shrinks == decay::on
                  ? static_cast<Real>(1 - options.learning_rate * options.weight_decay)
                  : Real{1};
          auto const weights = weights_.tensors()[k][slot].subspan(range.first, range.elements);
          auto const gradients = gradients_.tensors()[k][slot].subspan(range.first, range.elements);
          for (std::size_t i = 0; i < weights.size(); ++i)
            weights[i] = shrink * weights[i] - rate * gradients[i];
        }
  }

  /// One step of AdamW. `decays(tensor)` says which elements of a slot shrink: a list of ranges.
  template <class Decays>
  void step(adamw_options const& options, int step, double gradient_scale, Decays decays) {
    for (std::size_t k = 0; k < weights_.tensors().size(); ++k)
      for (std::size_t slot = 0; slot < weights_.slots(); ++slot) {
        for (decay_range const& range : decays(k)) {
          auto const part = [&](fssdp::expert_buffer<Real>& buffer) {
            return buffer.tensors()[k][slot].subspan(range.first, range.elements);
          };
          auto const shrink = range.shrinks == decay::on ? options.weight_decay : 0.0;
          adamw_step<Real>(part(weights_), part(gradients_), part(first_moments_),
                           part(second_moments_),
                           {.learning_rate = options.learning_rate,
                            .beta1 = options.beta1,
                            .beta2 = options.beta2,
                            .epsilon = options.epsilon,
                            .weight_decay = shrink},
                           step, gradient_scale);
        }
      }
  }

 private:
  Layout layout_;
  fssdp::rank_id rank_;
  fssdp::expert_buffer<Real> weights_;
  fssdp::expert_buffer<Real> gradients_;
  fssdp::expert_buffer<Real> first_moments_;
  fssdp::expert_buffer<Real> second_moments_;
};

}  // namespace moe_gpt
