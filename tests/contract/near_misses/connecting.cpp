// SPDX-License-Identifier: Apache-2.0
/// A communicator whose connect(peers) has a wrong signature; LACKS says which.
#include <vector>

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
  void connect() {}
#elif LACKS == 2
  void connect(std::vector<fssdp::rank_id> const&) {}
#elif LACKS == 3
  void connect(fssdp::rank_id) {}
#else
  void connect(std::span<fssdp::rank_id const>) {}
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
