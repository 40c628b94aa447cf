// SPDX-License-Identifier: Apache-2.0
/// When groups exchange what they have learned by themselves.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// What a schedule decides by: how many steps have been done when a round begins, how many there
/// will be, and the learning rate then. The same bits on all ranks.
struct round_start {
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double learning_rate = 0;
};

/// `schedule(start)`: how many steps a round has; from 1 to those that are left. Pure.
template <class Schedule>
concept synchronization_schedule = std::copy_constructible<Schedule> &&
    requires(Schedule const& schedule, round_start const& start) {
  { schedule(start) } -> std::same_as<std::uint64_t>;
};

namespace detail {

/// So many steps, as far as there are.
[[nodiscard]] inline std::uint64_t round_of(std::uint64_t wanted, round_start const& start) {
  require(start.step < start.steps, "synchronization_schedule: a round begins at step ", start.step,
          "; expected one before the last, ", start.steps);
  return std::clamp<std::uint64_t>(wanted, 1, start.steps - start.step);
}

}  // namespace detail

/// Rounds of equal length; the last may be shorter. (Local SGD, arXiv 1805.09767)
struct every {
  std::uint64_t count = 1;
  [[nodiscard]] std::uint64_t operator()(round_start const& start) const {
    return detail::round_of(count, start);
  }
};

/// Rounds of max(least, floor((alpha / learning rate)^2)) steps, in a warm-up of `least`: longer as
/// the rate decays. `alpha` takes the place of the length as what has to be tuned. (QSR, arXiv
/// 2310.14423)
struct quadratic {
  double alpha = 0;
  std::uint64_t least = 1;
  std::uint64_t warm_up = 0;  ///< steps
  [[nodiscard]] std::uint64_t operator()(round_start const& start) const {
    detail::require(alpha >= 0 && start.learning_rate > 0, "quadratic: alpha ", alpha,
                    " and a learning rate of ", start.learning_rate,
                    "; expected 0 or more, and a rate above 0");
    auto const ratio = alpha / start.learning_rate;
    auto const length = std::min(ratio * ratio, 0x1p52);
    auto const wanted =
        start.step < warm_up ? std::uint64_t{0} : static_cast<std::uint64_t>(length);
    return detail::round_of(std::max(least, wanted), start);
  }
};

static_assert(synchronization_schedule<every> && synchronization_schedule<quadratic>);

/// Fragments of a model in turn, each once in `period` steps, and applied `delay` steps after it has
/// been sent. One fragment without delay is `every{period}`. (Streaming DiLoCo, arXiv 2501.18512)
struct staggered {
  int fragments = 1;
  std::uint64_t period = 1;
  std::uint64_t delay = 0;

  /// What is to be done after a step; -1: nothing.
  struct turn {
    int applied = -1;  ///< this fragment arrives: before another one is sent
    int sent = -1;
  };
  /// @param step how many steps have been done
  /// @param steps how many there will be: nothing is sent that could not be applied
  /// @throws argument_error unless fragments divide the period, and each is applied before the next
  ///         one is sent
  [[nodiscard]] turn operator()(std::uint64_t step, std::uint64_t steps) const {
    detail::require(
        fragments >= 1 && period >= 1 && period % static_cast<std::uint64_t>(fragments) == 0,
        "staggered: ", fragments, " fragments in ", period,
        " steps; expected a number of them that divides the steps");
    auto const apart = period / static_cast<std::uint64_t>(fragments);
    detail::require(delay < apart, "staggered: a delay of ", delay, " steps; expected less than ",
                    apart, ", those between two fragments");
    auto const at = [&](std::uint64_t of) {
      if (of == 0 || of % apart != 0 || of + delay > steps) return -1;
      return static_cast<int>((of / apart - 1) % static_cast<std::uint64_t>(fragments));
    };
    return {.applied = step < delay ? -1 : at(step - delay), .sent = at(step)};
  }
};

}  // namespace fssdp
