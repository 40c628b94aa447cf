// SPDX-License-Identifier: Apache-2.0
/// What a thread_communicator does: posts memory, reads that of its peers, waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/comm/thread/meeting_room.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/comm/thread/thread_context.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/function_ref.hpp"

namespace fssdp::detail {

/// One rank in one communicator. Between `begin` and one of the calls below, messages are named.
class thread_rank {
  using state = thread_mailbox::state;

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

 public:
  using visit = function_ref<void(std::span<std::span<std::byte const> const>)>;
  using arrived = function_ref<void(std::size_t, std::span<std::byte const>)>;
  using serve_all = function_ref<void(thread_meeting const&)>;

  thread_rank(thread_context& context, rank_id rank)
      : context_{&context},
        rank_{rank},
        size_{context.ranks().size()},
        staged_(static_cast<std::size_t>(size_)),
        wanted_(staged_.size()),
        missing_(staged_.size()),
        names_{staged_.size()} {
    circle_.reserve(staged_.size());
  }

  [[nodiscard]] thread_context& context() const { return *context_; }
  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }

  void begin() {
    for (auto& messages : staged_) messages.clear();
    for (auto& messages : wanted_) messages.clear();
    missing_.assign(missing_.size(), 0);
    order_.clear();
    outgoing_.clear();
    names_.clear();
    held_ = 0;
    wanted_bytes_ = 0;
    label_ = {};
    ++sequence_;
  }

  void want(rank_id from, std::size_t bytes, std::byte* into) {
    auto& wanted = wanted_[peer_index(rank_, from, size_)];
    wanted.push_back({from, wanted.size(), order_.size(), bytes, into});
    order_.push_back(wanted.back());
    wanted_bytes_ += bytes;
    names_.insert(from);
    ++missing_[from.index()];
  }
  void stage(std::span<std::byte const> bytes, rank_id to, bool held) {
    auto& staged = staged_[peer_index(rank_, to, size_)];
    outgoing_.emplace_back(to, staged.size());
    staged.push_back({bytes, held});
    names_.insert(to);
    held_ += held ? 1 : 0;
  }
  void label(batch_label const& value) { label_ = value; }

  /// As those of the communicator.
  void exchange() {
    transact([&] {
      for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
        auto const messages = open(from);
        for (auto const& message : wanted) copy(message, messages[message.place].bytes);
        give_back(from);
      });
    });
  }
  void lend(visit look) {
    borrowed_.resize(order_.size());
    transact([&] {
      for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
        auto const messages = open(from);
        for (auto const& message : wanted)
          borrowed_[message.number] = messages[message.place].bytes;
      });
      look(borrowed_);
      for_each_peer(wanted_, [&](rank_id from, auto const&) { give_back(from); });
    });
  }
  void forward(arrived tell) {
    transact([&] {
      while (auto const* message = next_there()) {
        auto const bytes = context_->box(message->from, rank_).messages[message->place].bytes;
        if (message->into != nullptr) copy(*message, bytes);
        tell(message->number, bytes);
      }
      require(held_ == 0, "forward: ", held_,
              " messages are held when all has arrived; expected all to be let go");
      for_each_peer(wanted_, [&](rank_id from, auto const&) { give_back(from); });
    });
  }
  void meet(visit prepare, serve_all serve) {
    auto lock = context_->lock_soon();
    context_->check(rank_);
    try {
      come_to_meeting();
      lock.unlock();
      await_circle(lock);
      prepare_for_meeting(prepare);
      auto& host = *host_;
      if (host.unprepared_.fetch_sub(1) == 1) host.serve_circle(lock, serve);
      await_end_of_meeting(lock);
      if (refused_) std::rethrow_exception(std::exchange(refused_, nullptr));
      if (dropped_by_.has_value()) await_failure(lock, *dropped_by_);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      context_->room().leave(rank_);
      context_->fail(rank_, std::current_exception());
      throw;
    }
  }
  /// Lets a held message go.
  void release(std::size_t number) {
    auto const lock = context_->lock();
    require(number < outgoing_.size(), "forward: message ", number, " is let go; expected one of ",
            outgoing_.size());
    auto const [to, place] = outgoing_[number];
    auto& message = staged_[to.index()][place];
    require(message.held, "forward: message ", number, " is let go; expected one that is held");
    message.held = false;
    --held_;
    context_->let_go(rank_, to, place, number);
  }

 private:
  void copy(wanted_message const& message, std::span<std::byte const> bytes) {
    context_->copy(rank_, {message.into, message.bytes}, bytes, wanted_bytes_);
    copied_bytes_ += message.bytes;
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
    auto lock = context_->lock();
    context_->check(rank_);
    try {
      if (context_->is_throttled()) tell_turns();
      for_each_peer(staged_, [&](rank_id to, auto const& messages) {
        auto& box = context_->box(rank_, to);
        box.messages.clear();
        for (auto const& message : messages) box.messages.push_back({message.bytes});
        box.missing = messages.size();
        box.sequence = sequence_;
        box.label = label_;
        box.now = state::posted;
        context_->notify(to, box);
      });
      for (std::size_t number = 0; number < outgoing_.size(); ++number) {
        auto const [to, place] = outgoing_[number];
        if (!staged_[to.index()][place].held) context_->let_go(rank_, to, place, number);
      }
      lock.unlock();
      read();
      lock.lock();
      for_each_peer(staged_, [&](rank_id to, auto const&) {
        auto& box = context_->box(rank_, to);
        await(lock, to, &box, [&] { return box.now == state::empty; });
      });
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      context_->fail(rank_, std::current_exception());
      context_->close(lock, rank_);
      throw;
    }
  }

  /// Tells the network in which order this rank would like to get what it wants.
  void tell_turns() {
    for_each_peer(wanted_, [&](rank_id from, auto const& wanted) {
      auto& box = context_->box(from, rank_);
      box.turns.clear();
      for (auto const& message : wanted) box.turns.push_back(message.number + 1);
      box.turns_of = sequence_;
    });
  }

  /// How far a rank is that meets others.
  enum class meeting { comes, is_there, is_over };

  /// If all have come that messages connect with this rank, it is the host of their meeting.
  void come_to_meeting() {
    auto& room = context_->room();
    borrowed_.resize(order_.size());
    refused_ = nullptr;
    dropped_by_.reset();
    stage_ = meeting::comes;
    if (context_->member(rank_) != this) context_->member(rank_) = this;
    room.enter(rank_, names_, sequence_);
    if (room.find_circle(rank_, circle_) != rank_) return;
    unprepared_ = circle_.size();
    for (auto const rank : circle_) {
      room.leave(rank);
      auto& of = *context_->member(rank);
      of.host_ = this;
      of.stage_ = meeting::is_there;
      if (rank != rank_) context_->wake(rank);
    }
  }
  /// Gives up its core to other threads for a while, and then sleeps, until all have come.
  void await_circle(thread_context::lock_type& lock) {
    if (yields_until([&] { return stage_ != meeting::comes; })) return;
    lock.lock();
    while (stage_ == meeting::comes) {
      auto const who = context_->room().find_circle(rank_, circle_);  // is awaited
      await(lock, who, nullptr, [&] {
        return stage_ != meeting::comes || context_->room().find_circle(rank_, circle_) != who;
      });
    }
    lock.unlock();
  }
  /// Checks what peers send, and has a look at where it is. Those that are at a meeting change
  /// nothing of what they have named.
  void prepare_for_meeting(visit prepare) {
    try {
      for (auto const from : host_->circle_) {
        auto const& sender = *context_->member(from);
        if (!names_.contains(from) && !sender.names_.contains(rank_)) continue;
        auto const complaint =
            mismatch(sender.sequence_, sender.label_, sender.staged_[rank_.index()], from);
        if (!complaint.empty()) throw context_->disagreement(rank_, from, complaint);
      }
      for (auto const& message : order_)
        borrowed_[message.number] =
            context_->member(message.from)->staged_[rank_.index()][message.place].bytes;
      prepare(borrowed_);
    } catch (...) {
      refused_ = std::current_exception();
    }
  }
  /// As the host: all are prepared. If one of them could not be, nobody is served.
  void serve_circle(thread_context::lock_type& lock, serve_all serve) {
    auto const refuses = [&](rank_id rank) { return context_->member(rank)->refused_ != nullptr; };
    if (auto const bad = std::ranges::find_if(circle_, refuses); bad != circle_.end()) {
      for (auto const rank : circle_) context_->member(rank)->dropped_by_ = *bad;
    } else {
      serve({circle_, [&](rank_id rank, std::exception_ptr thrown) {
               auto& refused = context_->member(rank)->refused_;
               if (!refused) refused = std::move(thrown);
             }});
    }
    auto& context = *context_;
    auto const me = rank_;
    for (auto const rank : circle_)
      if (rank != me) context.member(rank)->stage_ = meeting::is_over;
    if (context.anyone_sleeps_at_meeting()) {
      lock.lock();
      for (auto const rank : circle_) context.wake(rank);
      lock.unlock();
    }
    stage_ = meeting::is_over;  // the last, as it keeps the list: it may be gone now
    if (!context.anyone_sleeps_at_meeting()) return;
    lock.lock();
    context.wake(me);
    lock.unlock();
  }
  void await_end_of_meeting(thread_context::lock_type& lock) {
    auto const is_over = [&] { return stage_ == meeting::is_over; };
    if (yields_until(is_over)) return;
    lock.lock();
    context_->sleep_at_meeting(lock, rank_, is_over);  // who prepares or serves waits for nobody
    lock.unlock();
  }
  /// Waits until a peer has failed.
  /// @throws peer_failed
  void await_failure(thread_context::lock_type& lock, rank_id peer) {
    lock.lock();
    await(lock, peer, nullptr, [] { return false; });
  }
  template <class Done>
  [[nodiscard]] bool yields_until(Done done) const {
    for (auto yields = context_->most_yields_at_meetings(); yields != 0 && !done(); --yields)
      std::this_thread::yield();
    return done();
  }

  template <class Done>
  void await(thread_context::lock_type& lock, rank_id peer, thread_mailbox* box, Done done) {
    context_->await(lock, rank_, peer, sequence_, label_, box, done);
  }

  /// Waits for all of a peer's messages, checks them against what is wanted, and begins to read.
  std::span<thread_mailbox::message const> open(rank_id from) {
    auto lock = context_->lock();
    auto& box = context_->box(from, rank_);
    await(lock, from, &box, [&] { return box.now == state::posted; });
    check(box, from);
    // posted still: a sender that fails takes its memory back, even when all of it was there
    await(lock, from, &box, [&] { return box.now == state::posted && box.missing == 0; });
    box.now = state::reading;
    return box.messages;
  }
  void check(thread_mailbox const& box, rank_id from) const {
    auto const complaint = mismatch(box.sequence, box.label, box.messages, from);
    if (!complaint.empty()) throw context_->disagreement(rank_, from, complaint);
  }

  /// Waits for any message that is wanted and has not been taken, in the order in which they were
  /// named; null if all have been.
  [[nodiscard]] wanted_message const* next_there() {
    auto lock = context_->lock();
    for (;;) {
      if (order_.empty()) return nullptr;
      for (auto at = order_.begin(); at != order_.end(); ++at) {
        auto& box = context_->box(at->from, rank_);
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
        auto const& box = context_->box(message.from, rank_);
        return box.now == state::posted ||
               (box.now == state::reading && box.messages[message.place].there);
      };
      auto const gone = std::ranges::find_if(
          order_, [&](wanted_message const& message) { return context_->has_left(message.from); });
      auto const peer = gone != order_.end() ? gone->from : order_.front().from;
      for (auto const other : first_n<rank_id>(size_))
        if (missing_[other.index()] != 0) context_->remember(rank_, other);
      await(lock, peer, nullptr, [&] {
        return std::ranges::any_of(order_, news) ||
               (gone == order_.end() && std::ranges::any_of(order_, [&](auto const& message) {
                  return context_->has_left(message.from);
                }));
      });
    }
  }
  void give_back(rank_id from) {
    auto const lock = context_->lock();
    auto& box = context_->box(from, rank_);
    box.now = state::empty;
    context_->notify(from, box);
  }

  /// What is wrong with a peer's messages; empty if nothing is.
  template <class Message>
  [[nodiscard]] std::string mismatch(std::uint64_t sequence, batch_label const& label,
                                     std::vector<Message> const& messages, rank_id from) const {
    auto const& wanted = wanted_[from.index()];
    if (sequence != sequence_ || label != label_)
      return difference({sequence_, label_}, {sequence, label});
    if (messages.size() != wanted.size()) return count_difference(wanted.size(), messages.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (messages[i].bytes.size() != wanted[i].bytes)
        return size_difference(i, wanted[i].bytes, messages[i].bytes.size());
    return {};
  }

  thread_context* context_;
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
  std::atomic<meeting> stage_ = meeting::is_over;
  std::exception_ptr refused_;
  std::optional<rank_id> dropped_by_;        // nobody is served, as it has refused
  rank_set names_;                           // peers
  std::vector<rank_id> circle_;              // of the host: who is at its meeting
  std::atomic<std::size_t> unprepared_ = 0;  // likewise
  thread_rank* host_ = nullptr;
};

}  // namespace fssdp::detail
