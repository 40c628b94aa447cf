// SPDX-License-Identifier: Apache-2.0
/// A communicator on a device that lacks an overload of encode, or where it has a wrong signature.
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
  void sum(fssdp::device_sums const&) {}
  void convert(fssdp::device_conversions const&) {}
  void copy(std::span<std::byte>, std::span<std::byte const>) {}
  std::span<std::byte> allocate(std::size_t) { return {}; }
  void free(std::span<std::byte>) {}
#if LACKS == 1
  void encode(void*) {}
#elif LACKS == 2  // none for sums
  void encode(fssdp::device_encoding const&) {}
#elif LACKS == 3  // only for sums
  void encode(fssdp::device_sum_encoding const&) {}
#else
  void encode(fssdp::device_encoding const&) {}
  void encode(fssdp::device_sum_encoding const&) {}
#endif
};

void call(near_miss& comm) { fssdp::synchronize(comm); }
