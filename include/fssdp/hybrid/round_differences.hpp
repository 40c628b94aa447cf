// SPDX-License-Identifier: Apache-2.0
/// The differences of parameters since groups were equal, and their exchange.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp::detail {

/// Memory of the shape of an arena, with some floats for each parameter, and differences that are
/// averaged by a gradient_exchange.
class round_differences {
 public:
  using layouts_type = gradient_exchange::layouts_type;

  /// @param kept the number of floats that are kept for each parameter
  /// @param is_last_kept whether the last of these are the differences; otherwise differences have
  ///        their own buffer, which need not be saved
  template <communicator Comm>
  round_differences(Comm& between, layouts_type const& layouts, rank_id rank,
                    std::vector<unit_shape> const& shapes, gradient_exchange_options options,
                    std::size_t kept, bool is_last_kept)
      : shapes_{shapes},
        layouts_{layouts},
        rank_{rank},
        parts_{kept},
        kept_{std::max(layouts.slots(rank), options.slots), sizes(kept + (is_last_kept ? 1 : 0))},
        own_{is_last_kept ? 0 : kept_.slots(), sizes(is_last_kept ? 0 : 1)},
        exchange_{between, layouts, rank, shapes, options} {}

  /// Part `part` of what is kept for tensor k in a slot of the arena.
  [[nodiscard]] std::span<float> kept(std::size_t part, std::size_t k, std::size_t slot) {
    return kept_.tensors()[part * shapes_.size() + k][slot];
  }
  /// Copies the parameters of a layer into a part of what is kept.
  /// @throws as shard_of
  template <tensor_memory Weights>
  void keep(std::size_t part, layer_id layer, Weights&& weights) {
    auto const views = shard_of(layer, weights);
    for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t in_arena) {
      std::ranges::copy(views[k][slot], kept(part, k, in_arena).begin());
    });
  }
  /// Calls visit(tensor, slot in the layer, slot in the arena).
  template <class Visit>
  void for_each_slot(layer_id layer, Visit visit) const {
    auto const first = static_cast<std::size_t>(layouts_.first_slot(layer, rank_));
    auto const slots = layouts_.layer(layer).owned(rank_).size();
    for (std::size_t k = 0; k < shapes_.size(); ++k)
      for (std::size_t slot = 0; slot < slots; ++slot) visit(k, slot, first + slot);
  }
  /// The shard of a layer, valid until the next call.
  /// @throws argument_error if it has another shape
  template <tensor_memory Weights>
  [[nodiscard]] std::span<expert_tensor<float> const> shard_of(layer_id layer, Weights&& weights) {
    exchange_.require_layer(layer);
    auto const& views = tensors_of(weights);
    exchange_.require_shapes(layer, views);
    shard_.assign(views.begin(), views.end());
    return shard_;
  }
  /// Calls write(tensor, slot in the layer, slot in the arena, difference) for all slots of a
  /// layer, and sends the differences.
  /// @param step of the training; groups that differ in it disagree
  template <class Write>
  void send(layer_id layer, std::uint64_t step, Write write) {
    auto const shard = differences_of(layer);
    for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      write(k, slot, kept, shard[k][slot]);
    });
    exchange_.average(layer, shard, static_cast<double>(step));  // the rate is compared, too
  }
  /// The averages of a layer, when they have arrived; valid until the next call.
  [[nodiscard]] std::span<expert_tensor<float> const> received(layer_id layer) {
    exchange_.synchronize();
    return differences_of(layer);
  }
  [[nodiscard]] gradient_exchange& exchange() { return exchange_; }
  [[nodiscard]] gradient_exchange const& exchange() const { return exchange_; }
  [[nodiscard]] expert_buffer<float>& memory() { return kept_; }
  void reshard(layouts_type const& layouts) {
    layouts_ = layouts;
    exchange_.reshard(layouts);
  }

 private:
  [[nodiscard]] std::vector<std::size_t> sizes(std::size_t parts) const {
    auto list = std::vector<std::size_t>{};
    for (std::size_t part = 0; part < parts; ++part)
      for (auto const shape : shapes_) list.push_back(shape.elements());
    return list;
  }
  [[nodiscard]] std::span<expert_tensor<float> const> differences_of(layer_id layer) {
    auto const all =
        own_.tensors().empty() ? kept_.tensors().subspan(parts_ * shapes_.size()) : own_.tensors();
    auto const first = static_cast<std::size_t>(layouts_.first_slot(layer, rank_));
    auto const slots = layouts_.layer(layer).owned(rank_).size();
    differences_.clear();
    for (auto const& tensor : all) differences_.push_back(part_of(tensor, first, slots));
    return differences_;
  }

  std::vector<unit_shape> shapes_;
  layouts_type layouts_;
  rank_id rank_;
  std::size_t parts_;
  expert_buffer<float> kept_;
  expert_buffer<float> own_;  // the differences, unless they are kept
  std::vector<expert_tensor<float>> shard_;
  std::vector<expert_tensor<float>> differences_;
  gradient_exchange exchange_;  // last, as its destructor waits for work on the members above
};

}  // namespace fssdp::detail
