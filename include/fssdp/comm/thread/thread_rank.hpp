// SPDX-License-Identifier: Apache-2.0
/// The implementation of thread_communicator: posts memory, reads that of peers, waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/comm/thread/meeting_guest.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/comm/thread/thread_context.hpp"
#include "fssdp/comm/thread/thread_messages.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/function_ref.hpp"

namespace fssdp::detail {

/// One rank in one communicator. Between `begin` and one of the calls below, messages are added.
class thread_rank {
  using state = thread_mailbox::state;

  using wanted_message = thread_messages::wanted_message;
  template <class Message>
  using per_peer = thread_messages::per_peer<Message>;

 public:
  using visit = function_ref<void(std::span<std::span<std::byte const> const>)>;
  using arrived = function_ref<void(std::size_t, std::span<std::byte const>)>;

  thread_rank(thread_context& context, rank_id rank)
      : context_{&context},
        rank_{rank},
        named_{rank, context.ranks().size()},
        guest_{context, named_} {}

  [[nodiscard]] thread_context& context() const { return *context_; }
  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return named_.size; }
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }

  void begin() { named_.begin(); }
  void want(rank_id from, std::size_t bytes, std::byte* into) { named_.want(from, bytes, into); }
  void stage(std::span<std::byte const> bytes, rank_id to, bool held) {
    named_.stage(bytes, to, held);
  }
  void label(batch_label const& value) { named_.label = value; }

  /// As exchange of the communicator.
  void exchange() {
    auto const last = last_wanted();
    transact(
        [&] {
          for_each_peer(named_.wanted, [&](rank_id from, auto const& wanted) {
            auto const messages = open(from);
            for (auto const& message : wanted) copy(message, messages[message.place].bytes);
            if (from != last) give_back(from, context_->lock());
          });
        },
        [&](thread_context::lock_type const& lock) {
          if (last.value() >= 0) give_back(last, lock);
        });
  }
  void lend(visit look) {
    borrowed_.resize(named_.order.size());
    transact(
        [&] {
          for_each_peer(named_.wanted, [&](rank_id from, auto const& wanted) {
            auto const messages = open(from);
            for (auto const& message : wanted)
              borrowed_[message.number] = messages[message.place].bytes;
          });
          look(borrowed_);
        },
        [&](thread_context::lock_type const& lock) { give_back_all(lock); });
  }
  void forward(arrived tell) {
    transact(
        [&] {
          while (auto const* message = next_there()) {
            auto const bytes = context_->box(message->from, rank_).messages[message->place].bytes;
            if (message->into != nullptr) copy(*message, bytes);
            tell(message->number, bytes);
          }
          require(named_.held == 0, "forward: ", named_.held,
                  " deferred sends are left when all messages have arrived; expected all to be "
                  "released");
        },
        [&](thread_context::lock_type const& lock) { give_back_all(lock); });
  }
  void meet(visit prepare, meeting_guest::serve_all serve) { guest_.meet(prepare, serve); }
  /// Releases a deferred send.
  void release(std::size_t number) {
    auto const lock = context_->lock();
    require(number < named_.outgoing.size(), "forward: message ", number,
            " is released; expected one of ", named_.outgoing.size());
    auto const [to, place] = named_.outgoing[number];
    auto& message = named_.staged[to.index()][place];
    require(message.held, "forward: message ", number, " is released; expected a deferred send");
    message.held = false;
    --named_.held;
    context_->let_go(rank_, to, place, number);
  }

 private:
  void copy(wanted_message const& message, std::span<std::byte const> bytes) {
    context_->copy(rank_, {message.into, message.bytes}, bytes, named_.wanted_bytes);
    copied_bytes_ += message.bytes;
  }
  template <class Message, class Function>
  static void for_each_peer(per_peer<Message> const& messages, Function function) {
    for (std::size_t peer = 0; peer < messages.size(); ++peer)
      if (!messages[peer].empty()) function(rank_id{peer}, messages[peer]);
  }

  /// Posts messages, lets `read` take received ones and, under the lock, `give_back(lock)` return
  /// mailboxes that are still open, and waits until all peers have read. If anything fails,
  /// withdraws this rank's memory before the exception propagates.
  template <class Read, class GiveBack>
  void transact(Read read, GiveBack give_back) {
    auto lock = context_->lock();
    context_->check(rank_);
    try {
      if (context_->is_throttled()) tell_turns();
      for_each_peer(named_.staged, [&](rank_id to, auto const& messages) {
        auto& box = context_->box(rank_, to);
        box.messages.clear();
        for (auto const& message : messages) box.messages.push_back({message.bytes});
        box.missing = messages.size();
        box.sequence = named_.sequence;
        box.label = named_.label;
        box.now = state::posted;
        context_->notify(to, box);
      });
      for (std::size_t number = 0; number < named_.outgoing.size(); ++number) {
        auto const [to, place] = named_.outgoing[number];
        if (!named_.staged[to.index()][place].held) context_->let_go(rank_, to, place, number);
      }
      lock.unlock();
      read();
      context_->lock_again(lock);
      give_back(lock);
      for_each_peer(named_.staged, [&](rank_id to, auto const&) {
        auto& box = context_->box(rank_, to);
        check_unwanted(to);
        await(lock, to, &box, [&] { return box.now == state::empty; });
      });
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      context_->fail(rank_, std::current_exception());
      context_->close(lock, rank_);
      throw;
    }
  }

  /// Tells the emulated network the order of this rank's receives.
  void tell_turns() {
    for_each_peer(named_.wanted, [&](rank_id from, auto const& wanted) {
      auto& box = context_->box(from, rank_);
      box.turns.clear();
      for (auto const& message : wanted) box.turns.push_back(message.number + 1);
      box.turns_of = named_.sequence;
    });
  }

  template <class Done>
  void await(thread_context::lock_type& lock, rank_id peer, thread_mailbox* box, Done done) {
    context_->await(lock, rank_, peer, named_.sequence, named_.label, box, done);
  }

  /// Waits for all of a peer's messages, checks them, and begins to read.
  std::span<thread_mailbox::message const> open(rank_id from) {
    auto lock = context_->lock();
    auto& box = context_->box(from, rank_);
    await(lock, from, &box, [&] { return box.now == state::posted; });
    check(box, from);
    // "posted" again: a failing sender withdraws its memory, even if all of it was there
    await(lock, from, &box, [&] { return box.now == state::posted && box.missing == 0; });
    box.now = state::reading;
    return box.messages;
  }
  void check(thread_mailbox const& box, rank_id from) const {
    auto const complaint = named_.mismatch(box.sequence, box.label, box.messages, from);
    if (!complaint.empty()) throw context_->disagreement(rank_, from, complaint);
  }
  /// Rejects messages from a peer from which none is expected in this exchange: ranks with
  /// different plans may both only send, and each would wait for the other to receive.
  void check_unwanted(rank_id from) const {
    auto const& box = context_->box(from, rank_);
    if (named_.wanted[from.index()].empty() && box.now == state::posted &&
        box.sequence == named_.sequence)
      check(box, from);
  }

  /// Waits for any message that has not been taken, in the order in which they were added; null if
  /// all have been.
  [[nodiscard]] wanted_message const* next_there() {
    auto lock = context_->lock();
    for (;;) {
      if (named_.order.empty()) return nullptr;
      for (auto at = named_.order.begin(); at != named_.order.end(); ++at) {
        auto& box = context_->box(at->from, rank_);
        if (box.now == state::posted) {
          check(box, at->from);
          box.now = state::reading;
        }
        if (box.now != state::reading || !box.messages[at->place].there) continue;
        taken_ = *at;
        named_.order.erase(at);
        --named_.missing[taken_.from.index()];
        return &taken_;
      }
      auto const news = [&](wanted_message const& message) {
        auto const& box = context_->box(message.from, rank_);
        return box.now == state::posted ||
               (box.now == state::reading && box.messages[message.place].there);
      };
      auto const gone = std::ranges::find_if(named_.order, [&](wanted_message const& message) {
        return context_->has_left(message.from);
      });
      auto const peer = gone != named_.order.end() ? gone->from : named_.order.front().from;
      for (auto const other : first_n<rank_id>(named_.size))
        if (named_.missing[other.index()] != 0) context_->remember(rank_, other);
      await(lock, peer, nullptr, [&] {
        return std::ranges::any_of(named_.order, news) ||
               (gone == named_.order.end() &&
                std::ranges::any_of(named_.order, [&](auto const& message) {
                  return context_->has_left(message.from);
                }));
      });
    }
  }
  /// The last rank from which a message is expected; rank_id{-1} if there is none.
  [[nodiscard]] rank_id last_wanted() const {
    auto last = rank_id{-1};
    for_each_peer(named_.wanted, [&](rank_id from, auto const&) { last = from; });
    return last;
  }
  void give_back_all(thread_context::lock_type const& lock) {
    for_each_peer(named_.wanted, [&](rank_id from, auto const&) { give_back(from, lock); });
  }
  void give_back(rank_id from, thread_context::lock_type const&) {
    auto& box = context_->box(from, rank_);
    box.now = state::empty;
    context_->notify(from, box);
  }

  thread_context* context_;
  rank_id rank_;
  std::uint64_t copied_bytes_ = 0;
  thread_messages named_;
  wanted_message taken_{};
  std::vector<std::span<std::byte const>> borrowed_;
  meeting_guest guest_;
};

}  // namespace fssdp::detail
