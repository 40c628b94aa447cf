// SPDX-License-Identifier: Apache-2.0
/// Models exactly the concept of a load predictor, less the one thing that LACKS names, from 1 to
/// 10.
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using loads = std::span<std::uint64_t const>;

#if LACKS == 1    // no loads in
#elif LACKS == 2  // loads in other numbers
  void push(std::span<double const>) {}
#elif LACKS == 3  // changes the loads
  void push(std::span<std::uint64_t>) {}
#else
  void push(loads) {}
#endif

#if LACKS == 4    // always as many experts
#elif LACKS == 5  // wants to know the ranks
  void resize(int, int) {}
#else
  void resize(int) {}
#endif

#if LACKS == 6    // no loads out
#elif LACKS == 7  // changes itself
  [[nodiscard]] std::vector<std::uint64_t> const& predict() { return kept; }
#elif LACKS == 8  // loads out in other numbers
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
