// SPDX-License-Identifier: Apache-2.0
/// A communicator that announces plans, with a wrong signature or without the other functions that
/// this needs; LACKS says which. It must be an error: it must not count as one without announce.
#include <cstdint>
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
#if LACKS != 1
  void agree(std::uint64_t) {}
#endif
#if LACKS == 2
#elif LACKS == 3
  void announce(std::uint64_t) {}
#elif LACKS == 4
  void announce(std::span<std::uint32_t const>) {}  // too few bits for the hashes
#else
  void announce(std::span<std::uint64_t const>) {}
#endif
#if LACKS == 5
#elif LACKS == 6
  void has_agreed(std::uint64_t) {}
#elif LACKS == 7
  bool has_agreed(int) { return true; }
#else
  bool has_agreed(std::uint64_t) { return true; }
#endif
};

static_assert(LACKS != 0 || fssdp::announcing_communicator<near_miss>);

void call(near_miss& comm) { fssdp::synchronize(comm); }
