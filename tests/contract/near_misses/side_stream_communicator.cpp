// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a communicator that runs beside its caller's stream, except for one
/// thing: LACKS says which. A materializer between devices requires the concept.
#include "fssdp/runtime/materializer.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using stream_type = void*;
#if LACKS != 1
  using memory_space = fssdp::device_memory;
#else
  struct memory_space {};
#endif
  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
  template <class Work>
  void submit(Work) {}
  void synchronize() {}
#if LACKS == 2  // no prepare
#elif LACKS == 3
  void prepare() {}
#else
  template <class Work>
  void prepare(Work) {}
#endif
#if LACKS == 4  // no position
#elif LACKS == 5
  int position() const { return 0; }
#elif LACKS == 6
  std::uint64_t position() { return 0; }
#else
  std::uint64_t position() const { return 0; }
#endif
#if LACKS == 7  // no await
#elif LACKS == 8
  void await() {}
#else
  void await(std::uint64_t) {}
#endif
#if LACKS == 9  // no clear
#elif LACKS == 10
  void clear(void*, std::size_t) {}
#else
  void clear(std::span<std::byte>) {}
#endif
};

void call(near_miss& comm, fssdp::expert_shards const& shards) {
  auto const layers = fssdp::materializer{comm, shards};
}
