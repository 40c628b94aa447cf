// SPDX-License-Identifier: Apache-2.0
/// Groups train independently; the average of a round is applied at the end of the next one (CO2).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/all_reduce.hpp"
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

/// Options of delayed_exchange.
struct delayed_exchange_options {
  double rate = 1;                 ///< alpha
  double momentum = 0;             ///< beta: 0 up to 16 devices, 0.2 for 32, 0.5 for 64
  double clip = 1;                 ///< phi: limits each element of the momentum
  bool penalty = true;             ///< whether updates are divided by the staleness gap
  any_compressor compressor = {};  ///< of pseudo-gradients; its error is kept as residual
  std::uint64_t seed = 0;
  std::size_t slots = 0;          ///< as in gradient_exchange_options
  host_stream* stream = nullptr;  ///< for asynchronous exchanges
};

/// The parts of the staleness gap, as sums of squares.
struct staleness {
  double moved = 0;       ///< |x_t - x_(t-1)|^2: of the last outer update
  double first_step = 0;  ///< |x_(t-1,1) - x_(t-1)|^2: of the first step of the previous round
};

/// L = 1 + |x_t - x_(t-1)| / |x_(t-1,1) - x_(t-1)|, over all parameters of a model; 1 if there was
/// no update. Equal bits on all ranks of all groups.
/// @param of the sum over what this rank owns, including dense parameters
/// @cost two exchanges of 16 bytes
/// L is used where the published code uses it; its formula follows gap-aware SGD (arXiv
/// 1909.10802), and has not been compared with equation 3 of the paper.
template <communicator Inside, communicator Between>
[[nodiscard]] double staleness_gap(Inside& inside, Between& between, staleness const& of) {
  auto const all = all_reduce(between, all_reduce(inside, std::array{of.moved, of.first_step}));
  return all[1] > 0 ? 1 + std::sqrt(all[0]) / std::sqrt(all[1]) : 1;
}

/// CO2. In round t a group trains from x_t, which is equal in all groups, to its local_t; meanwhile
/// the average of the local_(t-1) arrives. At the end of the round, with L the staleness gap:
///
///     m = clip(momentum m + (x_(t-1) - average local_(t-1)) / L, -clip, clip)    of each element
///     x_(t+1) = x_t - rate m;   the parameters become x_(t+1);   local_t is sent
///
/// So the result of a round is applied at the end of the next one, and no step waits unless an
/// exchange takes longer than a round:
///
///     for each layer:   between.begin(layer, weights)
///     after the first step of a round, for each layer:   between.first_step(layer, weights)
///     after its last one:   gap = staleness_gap(inside, counterparts, between.gap_of_rank())
///                           for each layer:   between.synchronize(layer, weights, gap)
///                           between.advance()
///
/// It keeps three floats for each parameter. (CO2, arXiv 2401.16265)
class delayed_exchange {
 public:
  using layouts_type = gradient_exchange::layouts_type;

  /// The arguments are those of gradient_exchange.
  /// @throws argument_error also unless rate and clip are above 0
  template <communicator Comm>
  delayed_exchange(Comm& between, layouts_type const& layouts, rank_id rank,
                   std::vector<unit_shape> const& shapes, delayed_exchange_options options = {})
      : options_{checked(options)},
        differences_{between,
                     layouts,
                     rank,
                     shapes,
                     {.compressor = std::move(options.compressor),
                      .memory = gradient_memory::residual,
                      .seed = options.seed,
                      .agreed = random_key(std::bit_cast<std::uint64_t>(options_.rate),
                                           std::bit_cast<std::uint64_t>(options_.momentum),
                                           std::bit_cast<std::uint64_t>(options_.clip),
                                           options_.penalty ? 1 : 0),
                      .slots = options.slots,
                      .stream = options.stream},
                     2,
                     true} {}

  /// Sets the initial parameters of a layer, which are equal in all groups.
  /// @param weights [owned, elements] per tensor: the shard of the layer
  /// @throws argument_error if they have another shape
  template <tensor_memory Weights>
  void begin(layer_id layer, Weights&& weights) {
    differences_.keep(start_of_round, layer, weights);
  }
  /// To be called after the first step of a round.
  template <tensor_memory Weights>
  void first_step(layer_id layer, Weights&& weights) {
    auto const views = differences_.shard_of(layer, weights);
    differences_.for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      auto const start = differences_.kept(start_of_round, k, kept);
      next_.first_step += squares_between(start, views[k][slot]);
    });
  }
  /// This rank's part of the gap at the end of a round. Waits for the average of the previous
  /// round, so the counterparts' communicator is not in use afterwards.
  /// @throws the error of that exchange
  [[nodiscard]] staleness gap_of_rank() {
    await_last_round();
    return last_;
  }
  /// Ends a round of a layer: applies the average that has arrived, and sends this round's
  /// parameters.
  /// @param gap 1 or more: `staleness_gap`; ignored without penalty
  /// @param step the number of training steps so far; groups that differ in it disagree
  /// @throws argument_error; the error of the exchange of the previous round, before any parameter
  ///         of the layer changes. If groups disagree in this call, they have already applied what
  ///         they agreed on before: with a stream the error is thrown at the end of the next round,
  ///         without one at once
  template <tensor_memory Weights>
  void synchronize(layer_id layer, Weights&& weights, double gap = 1, std::uint64_t step = 0) {
    auto const views = differences_.shard_of(layer, weights);
    detail::require(gap >= 1, "delayed_exchange: gap is ", gap, "; expected 1 or more");
    await_last_round();
    auto const share = static_cast<float>(options_.penalty ? 1 / gap : 1.0);
    differences_.send(
        layer, step,
        [&](std::size_t k, std::size_t slot, std::size_t kept, std::span<float> difference) {
          end_round(differences_.kept(start_of_round, k, kept),
                    differences_.kept(velocity, k, kept), difference, views[k][slot], share);
        });
  }
  /// Begins the next round; to be called after the last layer.
  void advance() {
    last_ = std::exchange(next_, {});
    differences_.exchange().advance();
    has_arrived_ = false;
  }
  /// The state for a checkpoint.
  struct position {
    std::uint64_t round = 0;
    staleness last = {};
    double first_step = 0;  ///< of the current round
  };
  [[nodiscard]] position where() const {
    return {differences_.exchange().step(), last_, next_.first_step};
  }
  void resume(position const& at) {
    differences_.exchange().resume(at.round);
    last_ = at.last;
    next_.first_step = at.first_step;
  }

  /// x_t, m and the average that has arrived, slot by slot as in the arenas: equal in all groups,
  /// to be moved with the owners, and saved. Waits for the exchange in progress.
  [[nodiscard]] expert_buffer<float>& kept() {
    differences_.exchange().synchronize();
    return differences_.memory();
  }
  [[nodiscard]] expert_buffer<float>& residuals() {
    differences_.exchange().synchronize();
    return differences_.exchange().kept();
  }
  void reshard(layouts_type const& layouts) { differences_.reshard(layouts); }
  [[nodiscard]] std::size_t bytes_sent(layer_id layer) const {
    return differences_.exchange().bytes_sent(layer);
  }

 private:
  static constexpr std::size_t start_of_round = 0;  // indices of the parts of kept()
  static constexpr std::size_t velocity = 1;

  [[nodiscard]] static delayed_exchange_options const& checked(
      delayed_exchange_options const& options) {
    detail::require(options.rate > 0 && options.clip > 0, "delayed_exchange: rate is ",
                    options.rate, " and clip ", options.clip, "; expected more than 0");
    return options;
  }
  /// Once per round: later calls do not wait for the layers that it has sent meanwhile.
  void await_last_round() {
    if (!has_arrived_) differences_.exchange().synchronize();
    has_arrived_ = true;
  }
  [[nodiscard]] static double squares_between(std::span<float const> a, std::span<float const> b) {
    auto sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      auto const apart = double{b[i]} - double{a[i]};
      sum += apart * apart;
    }
    return sum;
  }
  /// @param arrived the average of the previous round; replaced by what is sent now
  void end_round(std::span<float> start, std::span<float> m, std::span<float> arrived,
                 std::span<float> local, float share) {
    auto const beta = static_cast<float>(options_.momentum);
    auto const limit = static_cast<float>(options_.clip);
    auto const alpha = static_cast<float>(options_.rate);
    auto moved = 0.0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      auto const wanted = beta * m[i] + arrived[i] * share;
      m[i] = wanted != wanted ? wanted : std::clamp(wanted, -limit, limit);
      arrived[i] = start[i] - local[i];
      auto const before = start[i];
      start[i] -= alpha * m[i];
      local[i] = start[i];
      auto const move = double{start[i]} - double{before};
      moved += move * move;
    }
    next_.moved += moved;
  }

  delayed_exchange_options options_;
  detail::round_differences differences_;  // keeps x_t, m, and the differences in flight
  staleness last_;
  staleness next_;            // of the current round
  bool has_arrived_ = false;  // the average of the last round
};

}  // namespace fssdp
