// SPDX-License-Identifier: Apache-2.0
/// A communicator whose lend(post, visit), or the batch that it passes to post, is wrong; LACKS
/// says how.
#include <span>

#include "fssdp/comm/communicator_ref.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  struct batch_type {
    void send(std::span<std::byte const>, fssdp::rank_id) {}
#if LACKS == 4
    void recv(std::span<std::byte>, fssdp::rank_id) {}
#elif LACKS == 5
    void borrow(std::span<std::byte>, fssdp::rank_id) {}
#else
    void borrow(std::size_t, fssdp::rank_id) {}
#endif
  };

  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
#if LACKS == 1
  template <class Post>
  void lend(Post&&) {}
#elif LACKS == 2
  template <class Post, class Visit>
  void lend(Post&&, Visit&&, int) {}
#elif LACKS == 3
  void lend(std::span<std::byte const>, fssdp::rank_id) {}
#else
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    auto batch = batch_type{};
    post(batch);
    visit({});
  }
#endif
};

fssdp::communicator_ref call(near_miss& comm) { return fssdp::communicator_ref{comm}; }
