// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a layout, except for one thing: LACKS says which, from 1 to 19.
#include <cstddef>
#include <span>

#include "fssdp/plan/make_plan.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS == 1  // no default constructor
  explicit near_miss(int) {}
#else
  near_miss() = default;
#endif
#if LACKS == 2  // no copy constructor
  near_miss(near_miss const&) = delete;
  near_miss(near_miss&&) = default;
  near_miss& operator=(near_miss&&) = default;
#elif LACKS == 3  // no assignment
  near_miss(near_miss const&) = default;
  near_miss& operator=(near_miss const&) = delete;
#endif
#if LACKS != 4
  friend bool operator==(near_miss const&, near_miss const&) = default;
#endif

#if LACKS == 5  // no experts
#elif LACKS == 6
  long experts() const { return 1; }
#elif LACKS == 7
  int experts() { return 1; }
#else
  int experts() const { return 1; }
#endif

#if LACKS != 8
  int slices() const { return 1; }
#endif

#if LACKS == 9  // no ranks
#elif LACKS == 10
  std::size_t ranks() const { return 1; }
#else
  int ranks() const { return 1; }
#endif

#if LACKS == 11  // no owner
#elif LACKS == 12
  int owner(fssdp::chunk_id) const { return 0; }
#elif LACKS == 13  // only for whole experts
  fssdp::rank_id owner(fssdp::expert_id) const { return {}; }
#else
  fssdp::rank_id owner(fssdp::chunk_id) const { return {}; }
#endif

#if LACKS == 14  // no slot
#elif LACKS == 15
  fssdp::slice_id slot(fssdp::chunk_id) const { return {}; }
#else
  int slot(fssdp::chunk_id) const { return 0; }
#endif

#if LACKS == 16  // no owned
#elif LACKS == 17
  std::span<int const> owned(fssdp::rank_id) const { return {}; }
#elif LACKS == 18
  fssdp::chunk_id owned(fssdp::rank_id) const { return {}; }
#elif LACKS == 19  // a range without size()
  struct range {
    fssdp::chunk_range::iterator begin() const { return {}; }
    fssdp::chunk_range::iterator end() const { return {}; }
  };
  range owned(fssdp::rank_id) const { return {}; }
#else
  struct range {
    fssdp::chunk_range::iterator begin() const { return {0, 1}; }
    fssdp::chunk_range::iterator end() const { return {1, 1}; }
    std::size_t size() const { return 1; }
  };
  range owned(fssdp::rank_id) const { return {}; }
#endif
};

fssdp::transfer_plan call(near_miss const& layout, fssdp::placement const& where) {
  return fssdp::make_plan(layout, where);
}
