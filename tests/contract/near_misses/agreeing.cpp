// SPDX-License-Identifier: Apache-2.0
/// A communicator whose agree(hash) has a wrong signature; LACKS says which. It must be an error:
/// it must not count as a communicator without agree.
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
  void agree() {}
#elif LACKS == 2
  void agree(int) {}  // too few bits for the hash
#elif LACKS == 3
  void agree(fssdp::batch_label const&) {}
#elif LACKS == 4
  void agree(std::uint64_t, int) {}
#else
  void agree(std::uint64_t) {}
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
