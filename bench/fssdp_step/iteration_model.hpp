// SPDX-License-Identifier: Apache-2.0
/// How long an iteration takes by the costs of its layers, in the order in which the runtime works.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp_sim/layer_figures.hpp"

namespace step {

/// The time of a device and its port. Gathers and reductions follow each other through the port
/// while the device computes. Messages of exchanges that overlap take turns at a port, by their
/// positions in their exchanges. So tokens, which the device waits for, come after the first
/// messages of a gather that is in progress, as many as the tokens have, and before the others.
class device_clock {
 public:
  using transfer = double;  ///< the time for which the port works until it ends, seconds

  [[nodiscard]] double now() const { return now_; }

  /// Begins a gather or a reduction.
  /// @param first the share of it that comes before tokens
  transfer begin(double seconds, double first) {
    auto const start = begun_.empty() ? 0 : begun_.back().end;
    begun_.push_back({start + first * seconds, start + seconds});
    return begun_.back().end;
  }
  /// Begins to make a plan: transfers that begin later wait for it, and the port does not.
  void begin_plan(double seconds) {
    if (seconds == 0) return;
    begin(seconds, 0);
    begun_.back().moves = false;
  }
  void wait_for(transfer end) { compute(std::max(0.0, end - done_)); }
  void wait_for_all() {
    if (!begun_.empty()) wait_for(begun_.back().end);
  }
  void compute(double seconds) {
    now_ += seconds;
    if (!begun_.empty()) done_ = std::min(begun_.back().end, done_ + seconds);
  }
  void move_tokens(double seconds) {
    if (seconds == 0) return;
    auto one = begun_.begin();
    for (; one != begun_.end(); ++one) {
      if (one->end <= done_) continue;
      wait_for(one->first_end);
      if (one->first_end < one->end) break;  // tokens overtake what is left of it
    }
    if (one != begun_.end() && !one->moves) done_ = std::min(one->end, done_ + seconds);
    now_ += seconds;
  }

 private:
  struct queued {
    double first_end;
    double end;
    bool moves = true;  // else it is a plan
  };

  double now_ = 0;
  double done_ = 0;  // of what has begun
  std::vector<queued> begun_;
};

/// A gather or a reduction.
struct expert_move {
  double seconds = 0;
  std::size_t messages = 0;  ///< of the device that receives most
};

/// What placements and plans of a layer cost that were not made ahead.
struct planning_costs {
  double solver = 0;  ///< before the gather begins; the device waits
  double plan = 0;    ///< then, beside what the device computes
  double late_solver = 0;
  double late_plan = 0;  ///< after the late gather
};

/// What a layer costs in an iteration.
struct layer_costs {
  sim::expert_times experts;
  planning_costs planning = {};
  expert_move gather;      ///< before the router counts
  double late_gather = 0;  ///< seconds of what is gathered after that
  expert_move reduction;
};

/// What the layers of an iteration have in common.
struct iteration_shape {
  double dense_seconds = 0;        ///< of a layer's attention and dense layers, forward
  double counts_seconds = 0;       ///< until a layer's router counts are known
  double message_seconds = 0;      ///< of a dispatch or a combine, beside its bytes
  std::size_t token_messages = 0;  ///< that a device receives in one of them
  int prefetch_distance = 1;       ///< how many layers are gathered ahead, while experts compute
};

/// The order is that of device_rank::iterate.
[[nodiscard]] inline double iteration_seconds(std::span<layer_costs const> layers,
                                              iteration_shape const& of, fssdp::gathers often) {
  auto clock = device_clock{};
  auto const last = layers.size() - 1;
  auto const begin = [&](expert_move const& move) {
    auto const first = move.messages <= of.token_messages ? 1.0
                                                          : static_cast<double>(of.token_messages) /
                                                                static_cast<double>(move.messages);
    return clock.begin(move.seconds, first);
  };
  auto gathers = std::vector<device_clock::transfer>{};  // [layers that are being gathered]
  auto const gather_up_to = [&](std::size_t layer) {
    while (gathers.size() <= std::min(layer, last)) {
      auto const& next = layers[gathers.size()];
      clock.compute(next.planning.solver);
      clock.begin_plan(next.planning.plan);
      gathers.push_back(begin(next.gather));
    }
  };
  auto const distance = static_cast<std::size_t>(of.prefetch_distance);
  auto const experts = [&](double one_way, double until_back, auto gather_ahead) {
    auto const beside = one_way > 0 ? of.message_seconds : 0.0;
    clock.move_tokens(one_way + beside);
    gather_ahead();
    clock.compute(until_back - one_way);
    clock.move_tokens(one_way + beside);
  };

  gather_up_to(0);
  for (std::size_t layer = 0; layer <= last; ++layer) {
    auto const& [times, planning, gather, late_gather, reduction] = layers[layer];
    clock.compute(of.dense_seconds + of.counts_seconds);
    gather_up_to(layer);
    clock.wait_for(gathers[layer]);
    clock.compute(planning.late_solver);
    if (late_gather > 0) clock.wait_for(clock.begin(late_gather, 1));
    clock.begin_plan(planning.late_plan);
    experts(times.one_way, times.forward, [&] { gather_up_to(layer + distance); });
  }
  auto first = often == fssdp::gathers::twice ? last : 0;  // of the layers that are there
  auto const gather_down_to = [&](std::size_t layer) {
    while (first > layer) {
      --first;
      gathers[first] = begin(layers[first].gather);
    }
  };
  for (auto layer = layers.size(); layer-- > 0;) {
    auto const& times = layers[layer].experts;
    gather_down_to(layer);
    clock.wait_for(gathers[layer]);
    experts(times.one_way, times.backward,
            [&] { gather_down_to(layer - std::min(layer, distance)); });
    begin(layers[layer].reduction);
    clock.compute(2 * of.dense_seconds);
  }
  clock.wait_for_all();
  return clock.now();
}

}  // namespace step
