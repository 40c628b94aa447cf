// SPDX-License-Identifier: Apache-2.0
/// A communicator whose split(color, key) has a wrong signature; LACKS says which.
#include <optional>

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
  void split(int, int) {}
#elif LACKS == 2
  near_miss split(int, int) { return {}; }
#elif LACKS == 3
  std::optional<near_miss> split(int) { return {}; }
#elif LACKS == 4
  std::optional<near_miss> split(unsigned, int) { return {}; }
#elif LACKS == 5
  std::optional<near_miss> split(short, short) { return {}; }
#elif LACKS == 6
  std::optional<int> split(int, int) { return {}; }
#else
  std::optional<near_miss> split(int, int = 0) { return {}; }
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
