// SPDX-License-Identifier: Apache-2.0
/// What a thread_communicator does: posts memory, reads that of its peers, waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/group.hpp"
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
        is_in_circle_(staged_.size()) {
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
    ++missing_[from.index()];
  }
  void stage(std::span<std::byte const> bytes, rank_id to, bool held) {
    auto& staged = staged_[peer_index(rank_, to, size_)];
    outgoing_.emplace_back(to, staged.size());
    staged.push_back({bytes, held});
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
  void meet(serve_all serve) {
    auto lock = context_->lock();
    context_->check(rank_);
    try {
      borrowed_.resize(order_.size());
      refused_ = nullptr;
      stage_ = meeting::comes;
      context_->come(rank_) = this;
      if (find_circle() == rank_) serve_circle(lock, serve);
      await_end_of_meeting(lock);
      if (refused_) std::rethrow_exception(std::exchange(refused_, nullptr));
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      context_->come(rank_) = nullptr;
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
  enum class meeting { comes, is_served, is_over };

  [[nodiscard]] bool names(rank_id peer) const {
    return !staged_[peer.index()].empty() || !wanted_[peer.index()].empty();
  }
  /// Collects the ranks that messages connect with this one, each in the same exchange. One that is
  /// in another is still to come, but if it names a rank here: then they disagree.
  /// @returns the first that has not come; this rank if all have
  [[nodiscard]] rank_id find_circle() {
    circle_.assign(1, rank_);
    std::ranges::fill(is_in_circle_, 0);
    is_in_circle_[rank_.index()] = 1;
    for (std::size_t i = 0; i < circle_.size(); ++i) {
      auto const& at = *context_->come(circle_[i]);
      for (auto const peer : first_n<rank_id>(size_)) {
        if (is_in_circle_[peer.index()] != 0 || !at.names(peer)) continue;
        auto const* const other = context_->come(peer);
        if (other == nullptr || other->stage_ != meeting::comes ||
            (other->sequence_ != at.sequence_ && !other->names(circle_[i])))
          return peer;
        is_in_circle_[peer.index()] = 1;
        circle_.push_back(peer);
      }
    }
    return rank_;
  }
  /// All have come: checks what they want of each other, and serves them. If something is wrong,
  /// whose messages are has to throw.
  void serve_circle(thread_context::lock_type& lock, serve_all serve) {
    auto agree = true;
    for (auto const to : circle_)
      for (auto const from : circle_) {
        auto& receiver = *context_->come(to);
        auto const& sender = *context_->come(from);
        if (!receiver.names(from) && !sender.names(to)) continue;
        auto const complaint = receiver.mismatch(sender, from);
        if (complaint.empty()) continue;
        receiver.refuse(std::make_exception_ptr(context_->disagreement(to, from, complaint)));
        agree = false;
      }
    if (!agree) return;
    for (auto const rank : circle_) {
      auto& of = *context_->come(rank);
      of.stage_ = meeting::is_served;
      for (auto const& message : of.order_)
        of.borrowed_[message.number] =
            context_->come(message.from)->staged_[rank.index()][message.place].bytes;
    }
    lock.unlock();
    serve({circle_, [&](rank_id rank) { return std::span{context_->come(rank)->borrowed_}; },
           [&](rank_id rank, std::exception_ptr thrown) {
             auto& refused = context_->come(rank)->refused_;
             if (!refused) refused = std::move(thrown);
           }});
    lock.lock();
    for (auto const rank : circle_) {
      auto& of = *std::exchange(context_->come(rank), nullptr);
      of.stage_ = meeting::is_over;
      if (&of != this) context_->wake(rank);
    }
  }
  void refuse(std::exception_ptr thrown) {
    refused_ = std::move(thrown);
    stage_ = meeting::is_over;
    context_->wake(rank_);
  }
  void await_end_of_meeting(thread_context::lock_type& lock) {
    lock.unlock();
    for (auto yields = context_->most_yields_at_meetings();
         stage_ != meeting::is_over && yields != 0; --yields)
      std::this_thread::yield();
    if (stage_ == meeting::is_over) return;
    lock.lock();
    while (stage_ == meeting::comes) {
      auto const who = find_circle();  // is awaited
      await(lock, who, nullptr, [&] { return stage_ != meeting::comes || find_circle() != who; });
    }
    // a thread that serves waits for nobody
    while (stage_ != meeting::is_over) context_->sleep(lock, rank_);
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
  [[nodiscard]] std::string mismatch(thread_rank const& sender, rank_id from) const {
    return mismatch(sender.sequence_, sender.label_, sender.staged_[rank_.index()], from);
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
  std::vector<rank_id> circle_;
  std::vector<std::uint8_t> is_in_circle_;  // [rank]
};

}  // namespace fssdp::detail
