// SPDX-License-Identifier: Apache-2.0
/// Groups train by themselves all the time: what they have learned in a round arrives in the next.
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

/// How far and how fast parameters follow the average of a round ago, and what crosses.
struct delayed_exchange_options {
  double rate = 1;                 ///< alpha
  double momentum = 0;             ///< beta: 0 up to 16 devices, 0.2 for 32, 0.5 for 64
  double clip = 1;                 ///< phi: no element of the momentum is larger
  bool penalty = true;             ///< whether late updates shrink with the staleness gap
  any_compressor compressor = {};  ///< of pseudo-gradients; what it leaves out is a residual
  std::uint64_t seed = 0;
  std::size_t slots = 0;          ///< as of gradient_exchange_options
  host_stream* stream = nullptr;  ///< exchanges run there, while the caller goes on
};

/// What the staleness gap is made of, as sums of squares.
struct staleness {
  double moved = 0;       ///< |x_t - x_(t-1)|^2: by the last outer update
  double first_step = 0;  ///< |x_(t-1,1) - x_(t-1)|^2: by the first step of the round before
};

/// L = 1 + |x_t - x_(t-1)| / |x_(t-1,1) - x_(t-1)|, of all parameters of a model; 1 if nothing has
/// moved. The same bits on all ranks of all groups.
/// @param of the sum over what this rank owns, dense parameters as well
/// @cost two exchanges of 16 bytes
/// The place of L is that of the published code; its formula follows gap-aware SGD (arXiv
/// 1909.10802) and has not been compared with equation 3 of the paper.
template <communicator Inside, communicator Between>
[[nodiscard]] double staleness_gap(Inside& inside, Between& between, staleness const& of) {
  auto const all = all_reduce(between, all_reduce(inside, std::array{of.moved, of.first_step}));
  return all[1] > 0 ? 1 + std::sqrt(all[0]) / std::sqrt(all[1]) : 1;
}

/// CO2. In round t a group trains from x_t, equal in all groups, to its local_t; meanwhile the
/// average of the local_(t-1) arrives. At the end of the round, with L the staleness gap:
///
///     m = clip(momentum m + (x_(t-1) - average local_(t-1)) / L, -clip, clip)    of each element
///     x_(t+1) = x_t - rate m;   the parameters become x_(t+1);   local_t is sent
///
/// so that what is learned in a round is applied at the end of the next one, and no step waits
/// unless an exchange takes longer than a round:
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

  /// As gradient_exchange takes them.
  /// @throws argument_error besides, unless rate and clip are above 0
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

  /// These are the parameters that all groups have.
  /// @param weights [owned, elements] per tensor: the shard of the layer
  /// @throws argument_error if they have another shape
  template <tensor_memory Weights>
  void begin(layer_id layer, Weights&& weights) {
    differences_.keep(start_of_round, layer, weights);
  }
  /// The first step of a round has been done.
  template <tensor_memory Weights>
  void first_step(layer_id layer, Weights&& weights) {
    auto const views = differences_.shard_of(layer, weights);
    differences_.for_each_slot(layer, [&](std::size_t k, std::size_t slot, std::size_t kept) {
      auto const start = differences_.kept(start_of_round, k, kept);
      next_.first_step += squares_between(start, views[k][slot]);
    });
  }
  /// What this rank adds to the gap at the end of a round. It waits for the average of the round
  /// before, so that the counterparts' communicator is free.
  /// @throws what that exchange has thrown
  [[nodiscard]] staleness gap_of_rank() {
    await_last_round();
    return last_;
  }
  /// The end of a round of a layer: what has arrived is applied, what was learned is sent.
  /// @param gap 1 or more: `staleness_gap`; ignored without penalty
  /// @param step how many steps of training have been done: groups that differ in it disagree
  /// @throws argument_error; what the exchange of the round before has thrown, before any parameter
  ///         of the layer changes. Groups that disagree now have applied what they agreed on then:
  ///         with a stream they find out at the end of the next round, without one at once
  template <tensor_memory Weights>
  void synchronize(layer_id layer, Weights&& weights, double gap = 1, std::uint64_t step = 0) {
    auto const views = differences_.shard_of(layer, weights);
    detail::require(gap >= 1, "delayed_exchange: a staleness gap of ", gap, "; expected 1 or more");
    await_last_round();
    auto const share = static_cast<float>(options_.penalty ? 1 / gap : 1.0);
    differences_.send(
        layer, step,
        [&](std::size_t k, std::size_t slot, std::size_t kept, std::span<float> difference) {
          end_round(differences_.kept(start_of_round, k, kept),
                    differences_.kept(velocity, k, kept), difference, views[k][slot], share);
        });
  }
  /// The next round begins. After the last layer.
  void advance() {
    last_ = std::exchange(next_, {});
    differences_.exchange().advance();
    has_arrived_ = false;
  }
  /// Where it is: part of a checkpoint.
  struct position {
    std::uint64_t round = 0;
    staleness last = {};
    double first_step = 0;  ///< of the round that has begun
  };
  [[nodiscard]] position where() const {
    return {differences_.exchange().step(), last_, next_.first_step};
  }
  void resume(position const& at) {
    differences_.exchange().resume(at.round);
    last_ = at.last;
    next_.first_step = at.first_step;
  }

  /// x_t, m and the average that has arrived, slot by slot as in the arenas: equal in all groups, to
  /// be moved with the owners, and saved. It waits for what is under way.
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
  static constexpr std::size_t start_of_round = 0;  // parts of what is kept
  static constexpr std::size_t velocity = 1;

  [[nodiscard]] static delayed_exchange_options const& checked(
      delayed_exchange_options const& options) {
    detail::require(options.rate > 0 && options.clip > 0, "delayed_exchange: a rate of ",
                    options.rate, " and a clip of ", options.clip, "; expected more than 0");
    return options;
  }
  /// Once in a round: the layers that it has sent already are not waited for.
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
  /// @param arrived the average of the round before; it becomes what is sent now
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
  detail::round_differences differences_;  // keeps x_t, m, what is on its way
  staleness last_;
  staleness next_;            // of the round that has begun
  bool has_arrived_ = false;  // what was sent in the last round
};

}  // namespace fssdp
