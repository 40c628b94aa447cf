// SPDX-License-Identifier: Apache-2.0
/// What a rank owns of the experts of all layers: one arena, so that it may own many of one layer
/// and few of another.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "expert.hpp"
#include "expert_layouts.hpp"
#include "initialise.hpp"
#include "model_shape.hpp"
#include "optimizer_shard.hpp"

namespace moe_gpt {

/// The i-th expert of some views as its four tensors.
template <class Tensors>
[[nodiscard]] auto pointers_of(Tensors const& tensors, std::size_t slot) {
  using Element = typename decltype(tensors[0][slot])::element_type;
  return expert_tensors<Element>{tensors[0][slot].data(), tensors[1][slot].data(),
                                 tensors[2][slot].data(), tensors[3][slot].data()};
}

template <class Real>
class expert_arena {
 public:
  expert_arena(model_shape const& shape, std::uint64_t seed, fssdp::rank_id rank,
               expert_layouts const& layouts, shard_memory const& memory = {})
      : elements_{expert_elements(shape.d_model, shape.d_ff())},
        shard_{layouts, rank, elements_, memory} {
    auto whole = fssdp::expert_buffer<Real>{1, elements_};
    auto slot = std::size_t{0};
    for (auto const chunk : layouts.owned(rank)) {
      initialise_expert(shape, seed, layouts.layer_of(chunk).index(),
                        layouts.in_layer(chunk).expert.index(), pointers_of(whole.tensors(), 0));
      for (std::size_t k = 0; k < elements_.size(); ++k) {
        auto const part = fssdp::slice_extent{elements_[k], chunk.slice, layouts.slices()};
        std::ranges::copy(whole.tensors()[k][0].subspan(part.first, part.elements),
                          shard_.weights().tensors()[k][slot].begin());
      }
      ++slot;
    }
  }

  [[nodiscard]] optimizer_shard<Real, expert_layouts>& shard() { return shard_; }
  [[nodiscard]] expert_layouts const& layouts() const { return shard_.layout(); }

  void step(adamw_options const& options, int step, double gradient_scale) {
    shard_.step(options, step, gradient_scale, [this](std::size_t k) { return decays_of(k); });
  }
  void descend(adamw_options const& options) {
    shard_.descend(options, [this](std::size_t k) { return decays_of(k); });
  }

 private:
  [[nodiscard]] std::array<decay_range, 1> decays_of(std::size_t tensor) const {
    auto const is_matrix = tensor == 0 || tensor == 2;
    auto const all = shard_.weights().tensors()[tensor].elements;
    return {decay_range{0, all, is_matrix ? decay::on : decay::off}};
  }

  std::array<std::size_t, 4> elements_;
  optimizer_shard<Real, expert_layouts> shard_;
};

}  // namespace moe_gpt
