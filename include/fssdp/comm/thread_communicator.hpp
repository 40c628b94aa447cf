// SPDX-License-Identifier: Apache-2.0
/// A rank that is a thread of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/thread_lane.hpp"
#include "fssdp/core/copy_bytes.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

class thread_world;

/// A rank of a thread_world (thread.hpp). The receiver copies straight out of the sender's memory:
/// every byte is copied once, or not at all when it is lent.
///
/// @cost per exchange: no allocation once the largest batch has been seen; waits block, never spin
class thread_communicator {
 public:
  using stream_type = inline_stream;
  using memory_space = host_memory;

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Bytes that this rank has copied so far.
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }

  /// @throws ranks_disagree, peer_failed, deadline_exceeded; what `post` throws, before anything
  ///         is sent
  template <class Post>
  void exchange(Post&& post) {
    begin();
    auto batch = receiving{{*this}};
    post(batch);
    auto all = std::size_t{0};
    for_each_peer(wanted_, [&](rank_id, auto const& wanted) {
      for (auto const& message : wanted) all += message.bytes;
    });
    transact([&] {
      for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
        auto const messages = open(from);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          copy_bytes({wanted[i].into, wanted[i].bytes}, messages[i], all);
          copied_bytes_ += wanted[i].bytes;
        }
        give_back(from);
      });
    });
  }

  /// Optional extra: reads peers' memory in place (lending_communicator).
  /// A rank whose memory is being read does not leave before its reader is through, or has left:
  /// that wait alone has no deadline.
  /// @throws as exchange, and what `visit` throws
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    begin();
    auto batch = borrowing{{*this}};
    post(batch);
    borrowed_.resize(wanted_count_);
    transact([&] {
      for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
        auto const messages = open(from);
        for (std::size_t i = 0; i < wanted.size(); ++i) borrowed_[wanted[i].position] = messages[i];
      });
      visit(std::span<std::span<std::byte const> const>{borrowed_});
      for_each_peer(wanted_, [&](rank_id from, auto const&) { give_back(from); });
    });
  }

  /// Another lane between the same ranks. Every rank makes the same duplicates in the same order.
  [[nodiscard]] thread_communicator duplicate();

 private:
  friend thread_world;
  using state = detail::thread_mailbox::state;

  struct wanted_message {
    std::size_t bytes;
    std::byte* into;       // null if it is borrowed
    std::size_t position;  // among all messages of this batch that are wanted
  };
  template <class Message>
  using per_peer = std::vector<std::vector<Message>>;

  struct sending {
    thread_communicator& comm;
    void send(std::span<std::byte const> bytes, rank_id to) {
      comm.staged_[comm.checked(to)].push_back(bytes);
    }
    void label(batch_label const& value) { comm.label_ = value; }
  };
  struct receiving : sending {
    void recv(std::span<std::byte> bytes, rank_id from) {
      this->comm.want(from, bytes.size(), bytes.data());
    }
  };
  struct borrowing : sending {
    void borrow(std::size_t bytes, rank_id from) { this->comm.want(from, bytes, nullptr); }
  };

  thread_communicator(thread_world& world, detail::thread_lane& lane, rank_id rank, int size)
      : world_{&world},
        lane_{&lane},
        rank_{rank},
        size_{size},
        staged_(static_cast<std::size_t>(size)),
        wanted_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] std::size_t checked(rank_id peer) const {
    detail::require(peer.value() >= 0 && peer.value() < size_ && peer != rank_,
                    "exchange: message between rank ", rank_, " and rank ", peer,
                    "; expected another rank from 0 to ", size_ - 1);
    return peer.index();
  }
  void want(rank_id from, std::size_t bytes, std::byte* into) {
    wanted_[checked(from)].push_back({bytes, into, wanted_count_++});
  }
  void begin() {
    for (auto& messages : staged_) messages.clear();
    for (auto& messages : wanted_) messages.clear();
    wanted_count_ = 0;
    label_ = {};
    ++sequence_;
  }

  template <class Message, class Function>
  static void for_each_peer(per_peer<Message> const& messages, Function function) {
    for (std::size_t peer = 0; peer < messages.size(); ++peer)
      if (!messages[peer].empty()) function(rank_id{peer}, messages[peer]);
  }

  /// Posts what is staged, lets `read` take what is wanted, waits until all peers have read. If
  /// anything fails, closes this rank's memory to its peers before the exception goes on.
  template <class Read>
  void transact(Read read) {
    auto lock = lane_->lock();
    lane_->check(rank_);
    try {
      for_each_peer(staged_, [&](rank_id to, auto const& messages) {
        auto& box = lane_->box(rank_, to);
        box.messages.assign(messages.begin(), messages.end());
        box.sequence = sequence_;
        box.label = label_;
        box.now = state::posted;
        lane_->notify(to);
      });
      lock.unlock();
      read();
      lock.lock();
      for_each_peer(staged_,
                    [&](rank_id to, auto const&) { await(lock, to, rank_, to, state::empty); });
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      lane_->monitor().fail(rank_, detail::what(std::current_exception()));
      lane_->close(lock, rank_);
      throw;
    }
  }

  /// Waits until `peer` has brought a box into a state.
  void await(detail::thread_lane::lock_type& lock, rank_id peer, rank_id from, rank_id to,
             state wanted) {
    auto const& box = lane_->box(from, to);
    lane_->await(lock, rank_, peer, sequence_, label_, [&] { return box.now == wanted; });
  }

  /// Waits for a peer's messages, checks them against what is wanted, and begins to read.
  std::span<std::span<std::byte const> const> open(rank_id from) {
    auto lock = lane_->lock();
    await(lock, from, from, rank_, state::posted);
    auto& box = lane_->box(from, rank_);
    auto const complaint = mismatch(box, from);
    if (!complaint.empty()) throw ranks_disagree{from, complaint};
    box.now = state::reading;
    return box.messages;
  }
  void give_back(rank_id from) {
    auto const lock = lane_->lock();
    lane_->box(from, rank_).now = state::empty;
    lane_->notify(from);
  }

  /// What is wrong with a peer's messages; empty if nothing is.
  [[nodiscard]] std::string mismatch(detail::thread_mailbox const& box, rank_id from) const {
    auto const complain = [&](auto const&... parts) {
      return detail::text("rank ", rank_, " and rank ", from, " disagree: ", parts...);
    };
    auto const& wanted = wanted_[from.index()];
    if (box.sequence != sequence_)
      return complain("exchange ", sequence_, " here, ", box.sequence, " there");
    if (box.label != label_)
      return complain("round ", label_.round, " of plan ", std::hex, label_.plan, " here, round ",
                      box.label.round, " of plan ", box.label.plan, " there");
    if (box.messages.size() != wanted.size())
      return complain(wanted.size(), " messages expected, ", box.messages.size(), " sent");
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (box.messages[i].size() != wanted[i].bytes)
        return complain("message ", i, " should have ", wanted[i].bytes, " bytes, it has ",
                        box.messages[i].size());
    return {};
  }

  thread_world* world_;
  detail::thread_lane* lane_;
  rank_id rank_;
  int size_;
  std::uint64_t sequence_ = 0;
  std::uint64_t copied_bytes_ = 0;
  batch_label label_;
  per_peer<std::span<std::byte const>> staged_;
  per_peer<wanted_message> wanted_;
  std::size_t wanted_count_ = 0;
  std::vector<std::span<std::byte const>> borrowed_;
};

static_assert(lending_communicator<thread_communicator>);

}  // namespace fssdp
