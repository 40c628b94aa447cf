// SPDX-License-Identifier: Apache-2.0
/// A communicator whose forward(post, arrived), or the batch or release gate that it passes on, is
/// wrong; LACKS says how.
#include <span>

#include "fssdp/comm/communicator_ref.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  struct batch_type {
    void send(std::span<std::byte const>, fssdp::rank_id) {}
#if LACKS != 3
    void recv(std::span<std::byte>, fssdp::rank_id) {}
#endif
#if LACKS != 4
    void borrow(std::size_t, fssdp::rank_id) {}
#endif
#if LACKS == 5
    void hold_back(std::span<std::byte const>, fssdp::rank_id) {}
#else
    void hold(std::span<std::byte const>, fssdp::rank_id) {}
#endif
  };
  struct gate {
#if LACKS == 6
    void release() {}
#elif LACKS == 7
    void let_go(std::size_t) {}
#else
    void release(std::size_t) {}
#endif
  };

  fssdp::rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
#if LACKS == 1
  template <class Post>
  void forward(Post&&) {}
#elif LACKS == 2
  void forward(std::span<std::byte const>, fssdp::rank_id) {}
#else
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    auto batch = batch_type{};
    post(batch);
    auto release = gate{};
    arrived(std::size_t{}, std::span<std::byte const>{}, release);
  }
#endif
};

fssdp::communicator_ref call(near_miss& comm) { return fssdp::communicator_ref{comm}; }
