// SPDX-License-Identifier: Apache-2.0
/// A communicator with only some of stream_type, submit and synchronize, which belong together, or
/// with a wrong one; LACKS says which.
#include <cstdint>

#include "fssdp/comm/communicator.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS == 1  // no stream_type
#elif LACKS == 2
  using stream = void*;
#else
  using stream_type = void*;
#endif
  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
#if LACKS == 3  // no submit
#elif LACKS == 4
  void submit(int) {}
#else
  template <class Work>
  void submit(Work) {}
#endif
#if LACKS == 5  // no synchronize
#elif LACKS == 6
  void synchronise() {}
#elif LACKS == 7
  void synchronize(int) {}
#else
  void synchronize() {}
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
