// SPDX-License-Identifier: Apache-2.0
/// When groups exchange parameters.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// The arguments of a schedule: the steps done when a round begins, the total number of steps, and
/// the learning rate. Equal bits on all ranks.
struct round_start {
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  double learning_rate = 0;
};

/// `schedule(start)`: the number of steps of a round, from 1 to the remaining ones. Pure.
template <class Schedule>
concept synchronization_schedule = std::copy_constructible<Schedule> &&
    requires(Schedule const& schedule, round_start const& start) {
  { schedule(start) } -> std::same_as<std::uint64_t>;
};

namespace detail {

/// The wanted number of steps, limited to the remaining ones.
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

/// Rounds of max(least, floor((alpha / learning rate)^2)) steps, and of `least` steps during the
/// warm-up: longer as the rate decays. `alpha` is tuned instead of the length. (QSR, arXiv
/// 2310.14423)
struct quadratic {
  double alpha = 0;
  std::uint64_t least = 1;
  std::uint64_t warm_up = 0;  ///< steps
  [[nodiscard]] std::uint64_t operator()(round_start const& start) const {
    detail::require(alpha >= 0 && start.learning_rate > 0, "quadratic: alpha is ", alpha,
                    " and the learning rate ", start.learning_rate,
                    "; expected 0 or more, and more than 0");
    auto const ratio = alpha / start.learning_rate;
    auto const length = std::min(ratio * ratio, 0x1p52);
    auto const wanted =
        start.step < warm_up ? std::uint64_t{0} : static_cast<std::uint64_t>(length);
    return detail::round_of(std::max(least, wanted), start);
  }
};

static_assert(synchronization_schedule<every> && synchronization_schedule<quadratic>);

/// Exchanges fragments of a model in turn, each once in `period` steps, and applied `delay` steps
/// after it was sent. One fragment without delay equals `every{period}`. (Streaming DiLoCo, arXiv
/// 2501.18512)
struct staggered {
  int fragments = 1;
  std::uint64_t period = 1;
  std::uint64_t delay = 0;

  /// The actions after a step; -1: none.
  struct turn {
    int applied = -1;  ///< this fragment is applied, before another one is sent
    int sent = -1;
  };
  /// @param step the number of steps done
  /// @param steps the total number of steps: nothing is sent that could not be applied
  /// @throws argument_error unless the number of fragments divides the period, and each fragment is
  ///         applied before the next one is sent
  [[nodiscard]] turn operator()(std::uint64_t step, std::uint64_t steps) const {
    detail::require(
        fragments >= 1 && period >= 1 && period % static_cast<std::uint64_t>(fragments) == 0,
        "staggered: ", fragments, " fragments in ", period,
        " steps; expected a number of them that divides the steps");
    auto const apart = period / static_cast<std::uint64_t>(fragments);
    detail::require(delay < apart, "staggered: delay is ", delay, " steps; expected less than ",
                    apart, ", the distance of two fragments");
    auto const at = [&](std::uint64_t of) {
      if (of == 0 || of % apart != 0 || of + delay > steps) return -1;
      return static_cast<int>((of / apart - 1) % static_cast<std::uint64_t>(fragments));
    };
    return {.applied = step < delay ? -1 : at(step - delay), .sent = at(step)};
  }
};

}  // namespace fssdp
