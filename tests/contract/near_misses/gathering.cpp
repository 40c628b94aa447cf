// SPDX-License-Identifier: Apache-2.0
/// A communicator whose gather_values(mine, all) has a wrong signature; LACKS says which.
#include <span>

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
  void gather_values(std::span<std::byte const>) {}
#elif LACKS == 2
  void gather_values(std::span<std::byte>, std::span<std::byte>) {}
#elif LACKS == 3
  void gather_values(std::span<std::byte>, std::span<std::byte const>) {}
#elif LACKS == 4
  void gather_values(void const*, void*, std::size_t) {}
#else
  void gather_values(std::span<std::byte const>, std::span<std::byte>) {}
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
