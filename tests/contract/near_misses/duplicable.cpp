// SPDX-License-Identifier: Apache-2.0
/// A communicator whose duplicate() has a wrong signature; LACKS says which.
#include <cstdint>

#include "fssdp/comm/communicator.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
#if LACKS == 1
  void duplicate() {}
#elif LACKS == 2
  int duplicate() { return 0; }
#elif LACKS == 3
  near_miss duplicate(int) { return {}; }
#else
  near_miss duplicate() { return {}; }
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
