// SPDX-License-Identifier: Apache-2.0
/// A communicator on a device that lacks one of the functions that work there, or where one of them
/// has a wrong signature; LACKS says which.
#include <span>

#include "fssdp/comm/communicator.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using memory_space = fssdp::device_memory;
  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
#if LACKS == 1  // no sum
#elif LACKS == 2
  void sum(void*) {}
#else
  void sum(fssdp::device_sums const&) {}
#endif
#if LACKS == 3  // no convert
#elif LACKS == 4
  void convert(fssdp::device_sums const&) {}
#else
  void convert(fssdp::device_conversions const&) {}
#endif
#if LACKS == 5  // no copy
#elif LACKS == 6
  void copy(std::span<std::byte const>, std::span<std::byte>) {}
#else
  void copy(std::span<std::byte>, std::span<std::byte const>) {}
#endif
#if LACKS == 7  // no allocate
#elif LACKS == 8
  std::byte* allocate(std::size_t) { return nullptr; }
#elif LACKS == 9
  std::span<std::byte> allocate() { return {}; }
#else
  std::span<std::byte> allocate(std::size_t) { return {}; }
#endif
#if LACKS == 10  // no free
#elif LACKS == 11
  void free(int) {}
#else
  void free(std::span<std::byte>) {}
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
