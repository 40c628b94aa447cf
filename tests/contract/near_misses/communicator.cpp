// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a communicator, except for one thing: LACKS says which.
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/stream/host_stream.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS == 1  // no rank
#elif LACKS == 2
  int rank() const { return 0; }
#elif LACKS == 3
  fssdp::rank_id rank() { return {}; }
#else
  fssdp::rank_id rank() const { return {}; }
#endif
#if LACKS == 4  // no size
#elif LACKS == 5
  std::size_t size() const { return 1; }
#elif LACKS == 6
  int size() { return 1; }
#else
  int size() const { return 1; }
#endif
#if LACKS == 7  // no exchange
#elif LACKS == 8
  void exchange() {}
#elif LACKS == 9
  void exchange(int) {}
#elif LACKS == 10
  template <class Post>
  void exchange(Post&&, int) {}
#else
  template <class Post>
  void exchange(Post&&) {}
#endif
};

/// The same for one that is bound to a stream.
struct bound_near_miss {
#if LACKS != 11
  using stream_type = fssdp::host_stream;
#endif
  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
#if LACKS == 12  // no submit
#elif LACKS == 13
  void submit() {}
#else
  template <class Work>
  void submit(Work) {}
#endif
#if LACKS == 14  // no synchronize
#elif LACKS == 15
  void syncronize() {}
#elif LACKS == 16
  void synchronize(int) {}
#else
  void synchronize() {}
#endif
};

void call(near_miss& comm, bound_near_miss& bound, std::vector<int>& all) {
  fssdp::all_gather(comm, std::vector<int>(1), all);
  fssdp::all_gather(bound, std::vector<int>(1), all);
}
