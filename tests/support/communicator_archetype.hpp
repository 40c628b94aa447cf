// SPDX-License-Identifier: Apache-2.0
/// A communicator that models exactly the concept and nothing else: what compiles with it asks no
/// more of a host framework than the concept says.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/comm/communicator.hpp"

namespace support {

/// Cannot be copied, moved, assigned or compared.
struct immovable {
  immovable() = default;
  immovable(immovable const&) = delete;
  immovable& operator=(immovable const&) = delete;
};

/// The only rank of its world: it has nobody to exchange with, but every algorithm runs on it.
class communicator_archetype : immovable {
 public:
  explicit communicator_archetype(fssdp::rank_id only) : rank_{only} {}

  [[nodiscard]] fssdp::rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return 1; }

  template <class Post>
  void exchange(Post&& post) {
    auto batch = batch_archetype{};
    post(batch);
  }

 private:
  struct batch_archetype : immovable {
    void send(std::span<std::byte const>, fssdp::rank_id) {}
    void recv(std::span<std::byte>, fssdp::rank_id) {}
  };
  static_assert(fssdp::exchange_batch<batch_archetype>);

  fssdp::rank_id rank_;
};

static_assert(fssdp::communicator<communicator_archetype>);
static_assert(!fssdp::lending_communicator<communicator_archetype>);

/// Hides everything of a communicator but the concept: no lending, no labels, no communicators. It
/// says what the archetype leaves to the defaults.
template <fssdp::communicator Comm>
class exchange_only : immovable {
 public:
  using stream_type = fssdp::stream_type_of<Comm>;
  using memory_space = fssdp::memory_space_of<Comm>;

  explicit exchange_only(Comm& comm) : comm_{comm} {}

  [[nodiscard]] fssdp::rank_id rank() const { return comm_.rank(); }
  [[nodiscard]] int size() const { return comm_.size(); }

  template <class Post>
  void exchange(Post&& post) {
    comm_.exchange([&](auto& batch) {
      auto bare = bare_batch{batch};
      post(bare);
    });
  }

 private:
  template <class Batch>
  struct bare_batch {
    Batch& batch;
    void send(std::span<std::byte const> bytes, fssdp::rank_id to) { batch.send(bytes, to); }
    void recv(std::span<std::byte> bytes, fssdp::rank_id from) { batch.recv(bytes, from); }
  };
  template <class Batch>
  bare_batch(Batch&) -> bare_batch<Batch>;

  Comm& comm_;
};

/// Hides forwarding: a communicator that exchanges and lends, round by round.
template <fssdp::lending_communicator Comm>
class lending_only : immovable {
 public:
  using stream_type = fssdp::stream_type_of<Comm>;
  using memory_space = fssdp::memory_space_of<Comm>;

  explicit lending_only(Comm& comm) : comm_{comm} {}

  [[nodiscard]] fssdp::rank_id rank() const { return comm_.rank(); }
  [[nodiscard]] int size() const { return comm_.size(); }

  template <class Post>
  void exchange(Post&& post) {
    comm_.exchange(post);
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    comm_.lend(post, visit);
  }

 private:
  Comm& comm_;
};

static_assert(fssdp::communicator<exchange_only<communicator_archetype>>);

}  // namespace support
