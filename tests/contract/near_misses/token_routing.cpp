// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a routing, except for one thing: LACKS says which, from 1 to 13.
#include <cstdint>
#include <functional>
#include <vector>

#include "fssdp/routing/token_routing.hpp"
#include "fssdp/routing/token_traffic.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using rank = fssdp::rank_id;
  using expert = fssdp::expert_id;
  using count = std::uint64_t;
  using emit = std::function<void(rank, count)> const&;

#if LACKS == 1    // no placement
#elif LACKS == 2  // a copy of its placement
  fssdp::placement where() const { return holders; }
#elif LACKS == 3  // a placement that others can change
  fssdp::placement& where() const { return holders; }
#elif LACKS == 4  // where() is not const
  fssdp::placement const& where() { return holders; }
#else
  fssdp::placement const& where() const { return holders; }
#endif

#if LACKS == 5  // no call
  void route(rank, expert, count tokens, emit to) const { to(rank{0}, tokens); }
#elif LACKS == 6   // not const
  void operator()(rank, expert, count tokens, emit to) { to(rank{0}, tokens); }
#elif LACKS == 7   // no source
  void operator()(expert, count tokens, emit to) const { to(rank{0}, tokens); }
#elif LACKS == 8   // no expert
  void operator()(rank, count tokens, emit to) const { to(rank{0}, tokens); }
#elif LACKS == 9   // no tokens
  void operator()(rank, expert, emit to) const { to(rank{0}, 1); }
#elif LACKS == 10  // no function to call
  void operator()(rank, expert, count) const {}
#elif LACKS == 11  // source and expert the other way round
  void operator()(expert, rank, count tokens, emit to) const { to(rank{0}, tokens); }
#elif LACKS == 12  // takes only plain functions
  void operator()(rank, expert, count tokens, void (*to)(rank, count)) const {
    to(rank{0}, tokens);
  }
#elif LACKS == 13  // emits receivers without numbers of tokens
  void operator()(rank, expert, count, std::function<void(rank)> const& to) const { to(rank{0}); }
#else
  void operator()(rank, expert, count tokens, emit to) const { to(rank{0}, tokens); }
#endif

  mutable fssdp::placement holders;
};

template <fssdp::token_routing Routing>
fssdp::token_traffic traffic_of(fssdp::token_counts const& counts, Routing const& routing) {
  return {counts, routing};
}

fssdp::token_traffic call(fssdp::token_counts const& counts, near_miss const& routing) {
  return traffic_of(counts, routing);
}
