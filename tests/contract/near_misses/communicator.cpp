// SPDX-License-Identifier: Apache-2.0
/// Models exactly the concept of a communicator, less the one thing that LACKS names.
#include <vector>

#include "fssdp/comm/all_gather.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS != 1
  using stream_type = fssdp::inline_stream;
#endif
#if LACKS != 2
  using memory_space = fssdp::host_memory;
#endif
#if LACKS == 3  // no rank
#elif LACKS == 4
  int rank() const { return 0; }
#elif LACKS == 5
  fssdp::rank_id rank() { return {}; }
#else
  fssdp::rank_id rank() const { return {}; }
#endif
#if LACKS == 6  // no size
#elif LACKS == 7
  std::size_t size() const { return 1; }
#elif LACKS == 8
  int size() { return 1; }
#else
  int size() const { return 1; }
#endif
#if LACKS == 9  // no exchange
#elif LACKS == 10
  void exchange() {}
#elif LACKS == 11
  void exchange(int) {}
#elif LACKS == 12
  template <class Post>
  void exchange(Post&&, int) {}
#else
  template <class Post>
  void exchange(Post&&) {}
#endif
};

void call(near_miss& comm, std::vector<int>& all) {
  fssdp::all_gather(comm, std::vector<int>(1), all);
}
