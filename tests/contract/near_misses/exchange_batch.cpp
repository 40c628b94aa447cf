// SPDX-License-Identifier: Apache-2.0
/// A communicator whose batch lacks one thing: LACKS says which. The concept of a communicator
/// cannot know what exchange(post) passes to post; so the error comes from the first collective.
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/counting.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  struct batch_type {
#if LACKS == 1  // no send
#elif LACKS == 2
    void send(std::span<std::byte>, fssdp::rank_id) {}
#elif LACKS == 3
    void send(std::span<std::byte const>, int) {}
#else
    void send(std::span<std::byte const>, fssdp::rank_id) {}
#endif
#if LACKS == 4  // no recv
#elif LACKS == 5
    void receive(std::span<std::byte>, fssdp::rank_id) {}
#elif LACKS == 6
    void recv(std::size_t, fssdp::rank_id) {}
#else
    void recv(std::span<std::byte>, fssdp::rank_id) {}
#endif
  };

  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&& post) {
    auto batch = batch_type{};
    post(batch);
  }
};

#if LACKS % 2 == 0
void call(near_miss& comm, std::vector<int>& all) {
  fssdp::all_gather(comm, std::vector<int>(1), all);
}
#else  // with an adaptor around the communicator
void call(fssdp::counting<near_miss>& comm, std::vector<int>& all) {
  fssdp::all_gather(comm, std::vector<int>(1), all);
}
#endif
