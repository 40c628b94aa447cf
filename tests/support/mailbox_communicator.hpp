// SPDX-License-Identifier: Apache-2.0
/// A communicator of nothing but the concept, over mailboxes with any number of slots: the
/// transport of a host framework that buffers much, little or nothing.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "support/dice.hpp"

namespace support {

/// A mailbox for every ordered pair of ranks. Without slots, a sender hands over what it sends
/// (rendezvous); else it leaves a copy where there is room, and goes on.
class mailboxes {
 public:
  mailboxes(int ranks, std::size_t slots)
      : ranks_{ranks},
        slots_{slots},
        boxes_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

 private:
  friend class mailbox_communicator;
  struct letter {
    std::vector<std::byte> copy;
    std::span<std::byte const> bytes;
  };

  [[nodiscard]] std::deque<letter>& box(fssdp::rank_id from, fssdp::rank_id to) {
    return boxes_[from.index() * static_cast<std::size_t>(ranks_) + to.index()];
  }

  int ranks_;
  std::size_t slots_;
  std::vector<std::deque<letter>> boxes_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// One of these ranks. Yields at times, so that the ranks meet in different orders.
class mailbox_communicator {
 public:
  using stream_type = fssdp::inline_stream;
  using memory_space = fssdp::host_memory;

  mailbox_communicator(mailboxes& among, fssdp::rank_id rank, std::uint64_t seed)
      : among_{among},
        rank_{rank},
        draw_{seed * 1000 + rank.index()},
        out_(static_cast<std::size_t>(among.ranks_)),
        in_(out_.size()) {}

  [[nodiscard]] fssdp::rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return among_.ranks_; }

  template <class Post>
  void exchange(Post&& post) {
    auto batch = messages{*this};
    post(batch);
    maybe_yield();
    auto lock = std::unique_lock{among_.mutex_};
    while (!done()) {
      auto moved = false;
      for (auto const peer : fssdp::first_n<fssdp::rank_id>(size()))
        moved = put(peer) || take(peer) || moved;
      if (moved) {
        among_.changed_.notify_all();
        lock.unlock();
        maybe_yield();
        lock.lock();
      } else if (!done()) {
        among_.changed_.wait(lock);
      }
    }
  }

 private:
  struct messages {
    mailbox_communicator& comm;
    void send(std::span<std::byte const> bytes, fssdp::rank_id to) {
      comm.out_.at(to.index()).push_back(bytes);
    }
    void recv(std::span<std::byte> bytes, fssdp::rank_id from) {
      comm.in_.at(from.index()).push_back(bytes);
    }
  };

  void maybe_yield() {
    for (auto times = draw_.between(0, 3); times > 0; --times) std::this_thread::yield();
  }
  /// Nothing is left to do; what was handed over has been taken.
  [[nodiscard]] bool done() const {
    for (auto const peer : fssdp::first_n<fssdp::rank_id>(size()))
      if (!out_[peer.index()].empty() || !in_[peer.index()].empty() ||
          (among_.slots_ == 0 && !among_.box(rank_, peer).empty()))
        return false;
    return true;
  }
  /// Puts the next message to a peer into its box, if there is room: one at a time is handed over.
  bool put(fssdp::rank_id to) {
    auto& left = out_[to.index()];
    auto& box = among_.box(rank_, to);
    auto const hands_over = among_.slots_ == 0;
    if (left.empty() || box.size() >= (hands_over ? 1 : among_.slots_)) return false;
    auto& letter = box.emplace_back();
    letter.bytes = left.front();
    if (!hands_over) {
      letter.copy.assign(letter.bytes.begin(), letter.bytes.end());
      letter.bytes = letter.copy;
    }
    left.pop_front();
    return true;
  }
  /// Takes the next message of a peer, if it is there and wanted.
  bool take(fssdp::rank_id from) {
    auto& wanted = in_[from.index()];
    auto& box = among_.box(from, rank_);
    if (wanted.empty() || box.empty()) return false;
    if (box.front().bytes.size() != wanted.front().size())
      throw fssdp::ranks_disagree{from, "a message of another size"};
    fssdp::copy_bytes(wanted.front(), box.front().bytes);
    box.pop_front();
    wanted.pop_front();
    return true;
  }

  mailboxes& among_;
  fssdp::rank_id rank_;
  dice draw_;
  std::vector<std::deque<std::span<std::byte const>>> out_;  // [rank]
  std::vector<std::deque<std::span<std::byte>>> in_;         // [rank]
};

static_assert(fssdp::communicator<mailbox_communicator>);

}  // namespace support
