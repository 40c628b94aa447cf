// SPDX-License-Identifier: Apache-2.0
/// A rank that is a thread of this process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/comm/thread/thread_lane.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp {

class thread_world;

/// A rank of a thread_world (thread.hpp). The receiver copies straight out of the sender's memory:
/// every byte is copied once, or not at all when it is lent. Ranks that wait take a share of what
/// others copy, from 256 KiB on.
///
/// @cost per exchange: no allocation once the largest batch has been seen; a wait that is not over
///       when the core has been given up 20 times blocks
class thread_communicator {
 public:
  using stream_type = inline_stream;
  using memory_space = host_memory;

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Bytes that have been copied to this rank so far.
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }

  /// @throws ranks_disagree, peer_failed, deadline_exceeded; what `post` throws, before anything
  ///         is sent; what has left an exchange of this rank before, in this lane or another
  template <class Post>
  void exchange(Post&& post) {
    begin();
    auto batch = receiving{{*this}};
    post(batch);
    transact([&] {
      for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
        auto const messages = open(from);
        for (auto const& message : wanted) copy(message, messages[message.place].bytes);
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
    borrowed_.resize(order_.size());
    transact([&] {
      for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
        auto const messages = open(from);
        for (auto const& message : wanted)
          borrowed_[message.number] = messages[message.place].bytes;
      });
      visit(std::span<std::span<std::byte const> const>{borrowed_});
      for_each_peer(wanted_, [&](rank_id from, auto const&) { give_back(from); });
    });
  }

  /// Optional extra: passes messages on as they come in (forwarding_communicator).
  /// What is borrowed may be read until all has arrived; about leaving, see lend.
  /// @throws as exchange; what `arrived` throws; argument_error if a held message is let go twice
  ///         or never, or one that is not held
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    begin();
    auto batch = forwarding{{{*this}}};
    post(batch);
    transact([&] {
      auto let_go = gate{*this};
      while (auto const* message = next_there()) {
        auto const bytes = lane_->box(message->from, rank_).messages[message->place].bytes;
        if (message->into != nullptr) copy(*message, bytes);
        arrived(message->number, bytes, let_go);
      }
      detail::require(held_ == 0, "forward: ", held_,
                      " messages are held when all has arrived; expected all to be let go");
      for_each_peer(wanted_, [&](rank_id from, auto const&) { give_back(from); });
    });
  }

  /// Another lane between the same ranks. Every rank makes the same duplicates in the same order.
  [[nodiscard]] thread_communicator duplicate() {
    return {lane_->child(rank_, no_color, lane_->ranks()), rank_};
  }

  /// Optional extra: the group of the ranks that pass the same color (splittable_communicator), in
  /// the order of their keys; nothing for a rank that passes no_color. Every rank calls it, in the
  /// same order as other calls. When a rank of the world fails, whether it is in the group or not,
  /// all others get the peer_failed. Errors name ranks of the world.
  /// @cost an exchange of 8 bytes with each rank; some memory for each pair of ranks of the group,
  ///       until the world runs again
  /// @throws as exchange; argument_error if the color is negative and not no_color
  [[nodiscard]] std::optional<thread_communicator> split(int color, int key = 0) {
    detail::check_color(color);
    auto const mine = detail::split_choice{color, key};
    auto all = std::vector<detail::split_choice>(static_cast<std::size_t>(size_), mine);
    exchange([&](auto& batch) {
      batch.label(detail::split_label);
      detail::name_values(batch, rank_, size_, std::as_bytes(std::span{&mine, 1}),
                          std::as_writable_bytes(std::span{all}));
    });
    if (color == no_color) {
      lane_->skip_child(rank_);
      return {};
    }
    auto const ranks = detail::ranks_of_color(all, color);
    auto& lane = lane_->child(rank_, color, lane_->ranks().of(ranks));
    return thread_communicator{lane, rank_id{std::ranges::find(ranks, rank_) - ranks.begin()}};
  }
  /// The rank in the world of a rank here, which is another one in a group.
  /// @throws argument_error unless it is a rank of this communicator
  [[nodiscard]] rank_id world_rank(rank_id rank) const {
    return lane_->ranks().checked_world_rank(rank);
  }

 private:
  friend thread_world;
  using state = detail::thread_mailbox::state;

  struct wanted_message {
    rank_id from;
    std::size_t place;   // among those from the same rank
    std::size_t number;  // among all messages of this batch that are wanted
    std::size_t bytes;
    std::byte* into;  // null if it is borrowed
  };
  struct staged_message {
    std::span<std::byte const> bytes;
    bool held;
  };
  template <class Message>
  using per_peer = std::vector<std::vector<Message>>;

  struct sending {
    thread_communicator& comm;
    void send(std::span<std::byte const> bytes, rank_id to) { comm.stage(bytes, to, false); }
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
  struct forwarding : receiving {
    void borrow(std::size_t bytes, rank_id from) { this->comm.want(from, bytes, nullptr); }
    void hold(std::span<std::byte const> bytes, rank_id to) { this->comm.stage(bytes, to, true); }
  };
  /// Lets held messages go.
  struct gate {
    thread_communicator& comm;
    void release(std::size_t number) {
      auto const lock = comm.lane_->lock();
      detail::require(number < comm.outgoing_.size(), "forward: message ", number,
                      " is let go; expected one of ", comm.outgoing_.size());
      auto const [to, place] = comm.outgoing_[number];
      auto& message = comm.staged_[to.index()][place];
      detail::require(message.held, "forward: message ", number,
                      " is let go; expected one that is held");
      message.held = false;
      --comm.held_;
      comm.lane_->let_go(comm.rank_, to, place, number);
    }
  };

  thread_communicator(detail::thread_lane& lane, rank_id rank)
      : lane_{&lane},
        rank_{rank},
        size_{lane.ranks().size()},
        staged_(static_cast<std::size_t>(size_)),
        wanted_(staged_.size()),
        missing_(staged_.size()) {}

  void want(rank_id from, std::size_t bytes, std::byte* into) {
    auto& wanted = wanted_[detail::peer_index(rank_, from, size_)];
    wanted.push_back({from, wanted.size(), order_.size(), bytes, into});
    order_.push_back(wanted.back());
    wanted_bytes_ += bytes;
    ++missing_[from.index()];
  }
  void stage(std::span<std::byte const> bytes, rank_id to, bool held) {
    auto& staged = staged_[detail::peer_index(rank_, to, size_)];
    outgoing_.emplace_back(to, staged.size());
    staged.push_back({bytes, held});
    held_ += held ? 1 : 0;
  }
  void copy(wanted_message const& message, std::span<std::byte const> bytes) {
    lane_->copy(rank_, {message.into, message.bytes}, bytes, wanted_bytes_);
    copied_bytes_ += message.bytes;
  }
  void begin() {
    for (auto& messages : staged_) messages.clear();
    for (auto& messages : wanted_) messages.clear();
    missing_.assign(missing_.size(), 0);
    order_.clear();
    outgoing_.clear();
    held_ = 0;
    wanted_bytes_ = 0;
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
      if (lane_->is_throttled()) tell_turns();
      for_each_peer(staged_, [&](rank_id to, auto const& messages) {
        auto& box = lane_->box(rank_, to);
        box.messages.clear();
        for (auto const& message : messages) box.messages.push_back({message.bytes});
        box.missing = messages.size();
        box.sequence = sequence_;
        box.label = label_;
        box.now = state::posted;
        lane_->notify(to);
      });
      for (std::size_t number = 0; number < outgoing_.size(); ++number) {
        auto const [to, place] = outgoing_[number];
        if (!staged_[to.index()][place].held) lane_->let_go(rank_, to, place, number);
      }
      lock.unlock();
      read();
      lock.lock();
      for_each_peer(staged_, [&](rank_id to, auto const&) {
        auto const& box = lane_->box(rank_, to);
        await(lock, to, [&] { return box.now == state::empty; });
      });
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      lane_->fail(rank_, std::current_exception());
      lane_->close(lock, rank_);
      throw;
    }
  }

  /// Tells the network in which order this rank would like to get what it wants.
  void tell_turns() {
    for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
      auto& box = lane_->box(from, rank_);
      box.turns.clear();
      for (auto const& message : wanted) box.turns.push_back(message.number + 1);
      box.turns_of = sequence_;
    });
  }

  template <class Done>
  void await(detail::thread_lane::lock_type& lock, rank_id peer, Done done) {
    lane_->await(lock, rank_, peer, sequence_, label_, done);
  }

  /// Waits for all of a peer's messages, checks them against what is wanted, and begins to read.
  std::span<detail::thread_mailbox::message const> open(rank_id from) {
    auto lock = lane_->lock();
    auto& box = lane_->box(from, rank_);
    await(lock, from, [&] { return box.now == state::posted; });
    check(box, from);
    // posted still: a sender that fails takes its memory back, even when all of it was there
    await(lock, from, [&] { return box.now == state::posted && box.missing == 0; });
    box.now = state::reading;
    return box.messages;
  }
  void check(detail::thread_mailbox const& box, rank_id from) const {
    auto const complaint = mismatch(box, from);
    if (!complaint.empty()) throw lane_->disagreement(rank_, from, complaint);
  }

  /// Waits for any message that is wanted and has not been taken, in the order in which they were
  /// named; null if all have been.
  [[nodiscard]] wanted_message const* next_there() {
    auto lock = lane_->lock();
    for (;;) {
      if (order_.empty()) return nullptr;
      for (auto at = order_.begin(); at != order_.end(); ++at) {
        auto& box = lane_->box(at->from, rank_);
        if (box.now == state::posted) {
          check(box, at->from);
          box.now = state::reading;
        }
        if (box.now != state::reading || !box.messages[at->place].there) continue;
        taken_ = *at;
        order_.erase(at);
        --missing_[taken_.from.index()];
        return &taken_;
      }
      auto const news = [&](wanted_message const& message) {
        auto const& box = lane_->box(message.from, rank_);
        return box.now == state::posted ||
               (box.now == state::reading && box.messages[message.place].there);
      };
      auto const gone = std::ranges::find_if(
          order_, [&](wanted_message const& message) { return lane_->has_left(message.from); });
      auto const peer = gone != order_.end() ? gone->from : order_.front().from;
      for (auto const other : first_n<rank_id>(size_))
        if (missing_[other.index()] != 0) lane_->remember(rank_, other);
      await(lock, peer, [&] {
        return std::ranges::any_of(order_, news) ||
               (gone == order_.end() && std::ranges::any_of(order_, [&](auto const& message) {
                  return lane_->has_left(message.from);
                }));
      });
    }
  }
  void give_back(rank_id from) {
    auto const lock = lane_->lock();
    lane_->box(from, rank_).now = state::empty;
    lane_->notify(from);
  }

  /// What is wrong with a peer's messages; empty if nothing is.
  [[nodiscard]] std::string mismatch(detail::thread_mailbox const& box, rank_id from) const {
    auto const& wanted = wanted_[from.index()];
    if (box.sequence != sequence_ || box.label != label_)
      return detail::difference({sequence_, label_}, {box.sequence, box.label});
    if (box.messages.size() != wanted.size())
      return detail::count_difference(wanted.size(), box.messages.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (box.messages[i].bytes.size() != wanted[i].bytes)
        return detail::size_difference(i, wanted[i].bytes, box.messages[i].bytes.size());
    return {};
  }

  detail::thread_lane* lane_;
  rank_id rank_;
  int size_;
  std::uint64_t sequence_ = 0;
  std::uint64_t copied_bytes_ = 0;
  batch_label label_;
  per_peer<staged_message> staged_;
  per_peer<wanted_message> wanted_;
  std::vector<std::pair<rank_id, std::size_t>> outgoing_;  // in the order in which they were named
  std::vector<wanted_message> order_;                      // likewise, what has not been taken yet
  wanted_message taken_{};
  std::vector<std::size_t> missing_;  // [rank]: how many of those are its
  std::size_t held_ = 0;
  std::size_t wanted_bytes_ = 0;  // all together
  std::vector<std::span<std::byte const>> borrowed_;
};

static_assert(lending_communicator<thread_communicator>);
static_assert(splittable_communicator<thread_communicator>);
static_assert(forwarding_communicator<thread_communicator>);

}  // namespace fssdp
