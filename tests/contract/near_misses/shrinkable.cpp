// SPDX-License-Identifier: Apache-2.0
/// A communicator whose without(lost) or find_lost() has a wrong signature; LACKS says which.
#include <span>
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
  void without(std::span<fssdp::rank_id const>) {}
#elif LACKS == 2
  near_miss without(fssdp::rank_id) { return {}; }
#elif LACKS == 3
  near_miss without(std::span<int const>) { return {}; }
#elif LACKS != 4
  near_miss without(std::span<fssdp::rank_id const>) { return {}; }
#endif
#if LACKS == 5
  void find_lost() {}
#elif LACKS == 6
  std::vector<int> find_lost() { return {}; }
#elif LACKS == 7
  std::vector<fssdp::rank_id> find_lost(int) { return {}; }
#else
  std::vector<fssdp::rank_id> find_lost() { return {}; }
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
