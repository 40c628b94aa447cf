// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a load predictor, except for one thing: LACKS says which, from 1 to 10.
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using loads = std::span<std::uint64_t const>;

#if LACKS == 1    // no push
#elif LACKS == 2  // loads of another type
  void push(std::span<double const>) {}
#elif LACKS == 3  // changes the loads
  void push(std::span<std::uint64_t>) {}
#else
  void push(loads) {}
#endif

#if LACKS == 4    // no resize
#elif LACKS == 5  // one argument more
  void resize(int, int) {}
#else
  void resize(int) {}
#endif

#if LACKS == 6    // no predict
#elif LACKS == 7  // not const
  [[nodiscard]] std::vector<std::uint64_t> const& predict() { return kept; }
#elif LACKS == 8  // returns loads of another type
  [[nodiscard]] std::vector<double> predict() const { return {}; }
#else
  [[nodiscard]] std::vector<std::uint64_t> const& predict() const { return kept; }
#endif

#if LACKS == 9  // cannot be copied
  near_miss() = default;
  near_miss(near_miss const&) = delete;
  near_miss& operator=(near_miss const&) = delete;
#endif

#if LACKS != 10  // cannot be compared
  friend bool operator==(near_miss const&, near_miss const&) = default;
#endif

  std::vector<std::uint64_t> kept;
};

template <fssdp::load_predictor Predictor>
void look_at(Predictor const&) {}

void call(near_miss const& predictor) { look_at(predictor); }
