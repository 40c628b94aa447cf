// SPDX-License-Identifier: Apache-2.0
/// Groups train independently for some steps, then average their parameters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/round_differences.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/stream/host_stream.hpp"

namespace fssdp {

/// The outer optimizer, which is applied at the end of each round. The anchor is what the
/// parameters were after the last round, equal in all groups; local is what this group has made of
/// them since.
/// With d the average over groups of (anchor - local), the pseudo-gradient:
/// v = momentum v + d     anchor -= rate (d + momentum v)
struct outer_update {
  double rate = 1;      ///< 1 without momentum: the average of the parameters (local SGD)
  double momentum = 0;  ///< Nesterov's
};
/// The values of DiLoCo, for rounds of hundreds of steps. In short rounds, consecutive
/// pseudo-gradients are similar: there a momentum of 0.9 overshoots, and 0.5 does not. (arXiv
/// 2311.08105)
inline constexpr auto diloco = outer_update{.rate = 0.7, .momentum = 0.9};

/// Options of parameter_exchange.
struct parameter_exchange_options {
  outer_update outer = {};
  any_compressor compressor = {};  ///< of pseudo-gradients; its error is kept as residual
  /// The share of its own parameters that a group keeps at `finish`: these include what it has
  /// learned during the exchange. 0: the parameters become the anchor.
  double mix = 0;
  std::uint64_t seed = 0;
  std::size_t slots = 0;          ///< as in gradient_exchange_options
  host_stream* stream = nullptr;  ///< for asynchronous exchanges
};

/// Averages the parameters of what a rank owns over groups, at the end of each round: of the steps
/// that a group trains by itself. All groups begin with equal parameters, and have equal parameters
/// after each round:
///
///     auto between = parameter_exchange{counterparts, layouts, rank_in_group, shapes, options};
///     for each layer:                  between.begin(layer, weights)
///     after schedule(start) steps, for each layer:   between.synchronize(layer, weights)
///
/// With a stream, and `start` and `finish` instead of `synchronize`, groups continue training
/// during the exchange, and layers may be exchanged at different times (`staggered`). Then anchors
/// are equal in all groups; parameters are equal only with a mix of 0, directly after `finish`.
/// (Streaming DiLoCo, arXiv 2501.18512)
///
/// The optimizer state of a group is not exchanged. This keeps two floats for each parameter, the
/// anchor and the difference in flight, and one more with momentum.
class parameter_exchange {
 public:
  using layouts_type = gradient_exchange::layouts_type;

  /// The arguments are those of gradient_exchange.
  /// @throws argument_error also unless mix is at least 0 and below 1
  template <communicator Comm>
  parameter_exchange(Comm& between, layouts_type const& layouts, rank_id rank,
                     std::vector<unit_shape> const& shapes, parameter_exchange_options options = {})
      : outer_{options.outer},
        mix_{checked(options.mix)},
        differences_{between,
                     layouts,
                     rank,
                     shapes,
                     {.compressor = std::move(options.compressor),
                      .memory = gradient_memory::residual,
                      .seed = options.seed,
                      .agreed = random_key(std::bit_cast<std::uint64_t>(outer_.rate),
                                           std::bit_cast<std::uint64_t>(outer_.momentum),
                                           std::bit_cast<std::uint64_t>(options.mix)),
                      .slots = options.slots,
                      .stream = options.stream},
                     outer_.momentum == 0 ? std::size_t{1} : std::size_t{2},
                     false},
        is_under_way_(static_cast<std::size_t>(layouts.layers())) {}

  /// Sets the initial parameters of a layer, which are equal in all groups.
  /// @param weights [owned, elements] per tensor: the shard of the layer
  /// @throws argument_error if they have another shape
  template <tensor_memory Weights>
  void begin(layer_id layer, Weights&& weights) {
    differences_.keep(anchors, layer, weights);
  }
  /// Averages a layer over all groups.
  /// @param step the number of training steps so far; groups that differ in it disagree
  /// @cost as gradient_exchange::average; no allocation after every layer has been exchanged once
  /// @throws as gradient_exchange::average, before any parameter changes
  template <tensor_memory Weights>
  void synchronize(layer_id layer, Weights&& weights, std::uint64_t step = 0) {
    start(layer, weights, step);
    finish(layer, weights);
  }
  /// Begins to average a layer. With a stream it returns at once.
  /// @param step as for `synchronize`
  /// @throws argument_error if an exchange of the layer is in progress; without a stream as
  ///         `synchronize`
  template <tensor_memory Weights>
  void start(layer_id layer, Weights&& weights, std::uint64_t step = 0) {
    auto const views = differences_.shard_of(layer, weights);
    detail::require(!is_under_way_[layer.index()], "parameter_exchange: layer ", layer,
                    " is under way; expected `finish` before another `start`");
    differences_.send(
        layer, step,
        [&](std::size_t k, std::size_t slot, std::size_t kept, std::span<float> difference) {
          auto const from = anchor(k, kept);
          auto const local = views[k][slot];
          for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = from[i] - local[i];
        });
    is_under_way_[layer.index()] = true;
  }
  /// Waits for that exchange, and applies its result.
  /// @throws argument_error if no exchange of the layer is in progress; the error of the exchange,
  ///         before any parameter changes
  template <tensor_memory Weights>
  void finish(layer_id layer, Weights&& weights) {
    auto const views = differences_.shard_of(layer, weights);
    detail::require(is_under_way_[layer.index()], "parameter_exchange: layer ", layer,
                    " is not under way; expected `start` before `finish`");
    auto const received = differences_.received(layer);
    differences_.for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      auto const to = anchor(k, kept);
      update(to, outer_.momentum == 0 ? std::span<float>{} : differences_.kept(velocities, k, kept),
             received[k][slot]);
      mix(to, views[k][slot]);
    });
    is_under_way_[layer.index()] = false;
  }
  /// Whether a layer was started and not finished.
  [[nodiscard]] bool is_under_way(layer_id layer) const { return is_under_way_[layer.index()]; }

  /// Begins the next round; to be called after the last layer.
  void advance() { differences_.exchange().advance(); }
  /// The number of rounds so far: part of a checkpoint.
  [[nodiscard]] std::uint64_t round() const { return differences_.exchange().step(); }
  void resume(std::uint64_t round) { differences_.exchange().resume(round); }

  /// Anchors, velocities and residuals, slot by slot as in the arenas: to be moved with the owners,
  /// and saved. Anchors are equal in all groups after a round.
  /// @pre no layer is in progress
  [[nodiscard]] expert_buffer<float>& kept() { return differences_.memory(); }
  [[nodiscard]] expert_buffer<float>& residuals() { return differences_.exchange().kept(); }
  void reshard(layouts_type const& layouts) { differences_.reshard(layouts); }
  [[nodiscard]] std::size_t bytes_sent(layer_id layer) const {
    return differences_.exchange().bytes_sent(layer);
  }

 private:
  static constexpr std::size_t anchors = 0;  // indices of the parts of kept()
  static constexpr std::size_t velocities = 1;

  [[nodiscard]] static float checked(double mix) {
    detail::require(mix >= 0 && mix < 1, "parameter_exchange: mix is ", mix,
                    "; expected 0 or more, and less than 1");
    return static_cast<float>(mix);
  }
  [[nodiscard]] std::span<float> anchor(std::size_t k, std::size_t slot) {
    return differences_.kept(anchors, k, slot);
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
  void mix(std::span<float const> anchor, std::span<float> local) const {
    if (mix_ == 0)
      std::ranges::copy(anchor, local.begin());
    else
      for (std::size_t i = 0; i < local.size(); ++i)
        local[i] = mix_ * local[i] + (1 - mix_) * anchor[i];
  }

  outer_update outer_;
  float mix_;
  detail::round_differences differences_;  // keeps the anchor of each tensor, then its velocity
  std::vector<char> is_under_way_;         // [layers]
};

}  // namespace fssdp
