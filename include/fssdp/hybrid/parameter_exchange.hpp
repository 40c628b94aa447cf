// SPDX-License-Identifier: Apache-2.0
/// Groups train by themselves for some steps, then come together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// What becomes of the average of what groups have learned. With d the average of (anchor - local),
/// the pseudo-gradient:   v = momentum v + d     anchor -= rate (d + momentum v)     local = anchor
struct outer_update {
  double rate = 1;      ///< 1 without momentum: the average of the parameters (local SGD)
  double momentum = 0;  ///< Nesterov's
};
/// As in DiLoCo. After few rounds a momentum of 0.9 overshoots. (arXiv 2311.08105)
inline constexpr auto diloco = outer_update{.rate = 0.7, .momentum = 0.9};

struct parameter_exchange_options {
  outer_update outer = {};
  any_compressor compressor = {};  ///< of pseudo-gradients; what it leaves out is a residual
  std::uint64_t seed = 0;
  std::size_t slots = 0;  ///< as of gradient_exchange_options
};

/// One rank's part: the parameters of what it owns. All groups begin with equal parameters; after
/// each round they have equal parameters again:
///
///     auto between = parameter_exchange{counterparts, layouts, rank_in_group, shapes, options};
///     for each layer:                  between.begin(layer, weights)
///     after schedule(start) steps, for each layer:   between.synchronize(layer, weights)
///
/// What the optimizer of a group remembers stays in the group.
class parameter_exchange {
 public:
  using layouts_type = gradient_exchange::layouts_type;

  /// As gradient_exchange takes them.
  template <communicator Comm>
  parameter_exchange(Comm& between, layouts_type const& layouts, rank_id rank,
                     std::vector<unit_shape> const& shapes, parameter_exchange_options options = {})
      : outer_{options.outer},
        shapes_{shapes},
        differences_{between,
                     layouts,
                     rank,
                     shapes,
                     {.compressor = std::move(options.compressor),
                      .memory = gradient_memory::residual,
                      .seed = options.seed,
                      .slots = options.slots}},
        layouts_{layouts},
        rank_{rank},
        kept_{std::max(layouts.slots(rank), options.slots), sizes(shapes, options.outer)} {}

  /// These are the parameters that all groups have.
  /// @param weights [owned, elements] per tensor: the shard of the layer
  /// @throws argument_error if they have another shape
  template <tensor_memory Weights>
  void begin(layer_id layer, Weights const& weights) {
    auto const views = shard_of(layer, weights);
    for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      std::ranges::copy(views[k][slot], kept_.tensors()[k][kept].begin());
    });
  }
  /// Brings a layer of all groups together.
  /// @cost as gradient_exchange::average; no allocation but for small lists
  /// @throws as gradient_exchange::average, before any parameter changes
  template <tensor_memory Weights>
  void synchronize(layer_id layer, Weights&& weights) {
    auto const views = shard_of(layer, weights);
    auto const slots = layouts_.layer(layer).owned(rank_).size();
    if (difference_.slots() < slots || difference_.tensors().size() != shapes_.size())
      difference_ = expert_buffer<float>{layouts_.slots(rank_), elements(shapes_)};
    difference_.resize(slots);
    for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      auto const anchor = kept_.tensors()[k][kept];
      auto const to = difference_.tensors()[k][slot];
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = anchor[i] - views[k][slot][i];
    });
    differences_.average(layer, difference_);
    for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      update(kept_.tensors()[k][kept], velocity(k, kept), difference_.tensors()[k][slot]);
      std::ranges::copy(kept_.tensors()[k][kept], views[k][slot].begin());
    });
  }
  /// The next round begins. After the last layer.
  void advance() { differences_.advance(); }
  /// How many rounds there have been: part of a checkpoint.
  [[nodiscard]] std::uint64_t round() const { return differences_.step(); }
  void resume(std::uint64_t round) { differences_.resume(round); }

  /// Anchors and velocities, and what has not been sent, slot by slot as in the arenas: to be moved
  /// with the owners, and saved. The first is equal in all groups after a round.
  [[nodiscard]] expert_buffer<float>& kept() { return kept_; }
  [[nodiscard]] expert_buffer<float>& residuals() { return differences_.kept(); }
  void reshard(layouts_type const& layouts) {
    layouts_ = layouts;
    differences_.reshard(layouts);
  }
  [[nodiscard]] std::size_t bytes_sent(layer_id layer) const {
    return differences_.bytes_sent(layer);
  }

 private:
  [[nodiscard]] static std::vector<std::size_t> elements(std::span<unit_shape const> shapes) {
    auto list = std::vector<std::size_t>{};
    for (auto const shape : shapes) list.push_back(shape.elements());
    return list;
  }
  [[nodiscard]] static std::vector<std::size_t> sizes(std::span<unit_shape const> shapes,
                                                      outer_update const& outer) {
    auto list = elements(shapes);
    for (auto const shape : shapes) list.push_back(outer.momentum == 0 ? 0 : shape.elements());
    return list;
  }
  template <tensor_memory Weights>
  [[nodiscard]] auto shard_of(layer_id layer, Weights&& weights) const {
    differences_.require_layer(layer);
    auto const views = tensors_of(weights);
    differences_.require_shapes(layer, views);
    return std::vector(views.begin(), views.end());
  }
  /// Calls visit(tensor, slot in the layer, slot in the arena).
  template <class Visit>
  void for_each_slot(layer_id layer, Visit visit) const {
    auto const first = static_cast<std::size_t>(layouts_.first_slot(layer, rank_));
    auto const slots = layouts_.layer(layer).owned(rank_).size();
    for (std::size_t k = 0; k < shapes_.size(); ++k)
      for (std::size_t slot = 0; slot < slots; ++slot) visit(k, slot, first + slot);
  }
  [[nodiscard]] std::span<float> velocity(std::size_t k, std::size_t slot) {
    return kept_.tensors()[shapes_.size() + k][slot];
  }
  void update(std::span<float> anchor, std::span<float> velocity, std::span<float const> d) const {
    auto const rate = static_cast<float>(outer_.rate);
    auto const momentum = static_cast<float>(outer_.momentum);
    for (std::size_t i = 0; i < anchor.size(); ++i) {
      auto move = d[i];
      if (!velocity.empty()) {
        velocity[i] = momentum * velocity[i] + d[i];
        move += momentum * velocity[i];
      }
      anchor[i] -= rate * move;
    }
  }

  outer_update outer_;
  std::vector<unit_shape> shapes_;
  gradient_exchange differences_;
  layouts_type layouts_;
  rank_id rank_;
  expert_buffer<float> kept_;        // of each tensor the anchor, then its velocity
  expert_buffer<float> difference_;  // of a layer
};

}  // namespace fssdp
