// SPDX-License-Identifier: Apache-2.0
/// How a thread takes part in meetings: it comes, prepares, and waits or serves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "fssdp/comm/thread/known_circle.hpp"
#include "fssdp/comm/thread/meeting_room.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/comm/thread/thread_context.hpp"
#include "fssdp/comm/thread/thread_messages.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// One rank at the meetings of one communicator.
class meeting_guest {
 public:
  using visit = function_ref<void(std::span<std::span<std::byte const> const>)>;
  using serve_all = function_ref<void(thread_meeting const&)>;

  /// @param named the messages that the rank has added when it comes
  meeting_guest(thread_context& context, thread_messages const& named)
      : context_{&context}, named_{named}, known_peers_{named.staged.size()} {
    found_.reserve(named.staged.size());
  }

  /// As meet of the communicator.
  void meet(visit prepare, serve_all serve) {
    borrowed_.resize(named_.order.size());
    refused_ = nullptr;
    dropped_by_.reset();
    auto const again = meets_again();
    auto lock = context_->unlocked();
    if (!again) {
      context_->lock_again(lock);
      context_->check(named_.me);
    }
    try {
      if (!again) {
        come_to_meeting();
        lock.unlock();
        await_circle(lock);
      }
      prepare_for_meeting(prepare);
      if (circle_->note_prepared()) wake(lock, host_);
      if (host_ == named_.me) {
        await_at_meeting(lock, [&] { return circle_->all_prepared(); });
        serve_circle(lock, serve);
      }
      await_at_meeting(lock, [&] { return circle_->has_ended(turn_); });
      ++turn_;
      if (refused_) std::rethrow_exception(std::exchange(refused_, nullptr));
      if (dropped_by_.has_value()) await_failure(lock, *dropped_by_);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      context_->room().leave(named_.me);
      context_->fail(named_.me, std::current_exception());
      throw;
    }
  }

 private:
  /// Meets the same ranks as last time, if all of them come soon with the same peers, and nothing
  /// has failed. Without the lock.
  [[nodiscard]] bool meets_again() {
    if (circle_ == nullptr || context_->has_failed() || named_.peers != known_peers_ ||
        !circle_->come(turn_))
      return false;
    auto const waits = [&] { return circle_->how_far(turn_) == known_circle::coming::waits; };
    if (!yields_until([&] { return !waits(); })) circle_->close();
    return circle_->how_far(turn_) == known_circle::coming::complete;
  }
  /// If all ranks that are connected with this one by messages have come, they meet. The lowest
  /// rank is the host and serves them. It is not the last one to come, as its data would then move
  /// from core to core.
  void come_to_meeting() {
    auto& room = context_->room();
    has_met_ = false;
    if (context_->member(named_.me) != this) context_->member(named_.me) = this;
    room.enter(named_.me, named_.peers, named_.sequence);
    context_->close_circles(named_.me, named_.peers);
    if (room.find_circle(named_.me, found_) != named_.me) return;
    std::ranges::sort(found_);
    auto& circle = context_->circle(found_.front());
    std::swap(circle.ranks(), found_);
    auto const turn = circle.open();
    for (auto const rank : circle.ranks()) {
      room.leave(rank);
      context_->member(rank)->find_met(circle, turn);
      context_->host_of(rank) = circle.ranks().front();
      if (rank != named_.me) context_->wake(rank);
    }
  }
  void find_met(known_circle& circle, std::uint64_t turn) {
    circle_ = &circle;
    host_ = circle.ranks().front();
    turn_ = turn;
    known_peers_ = named_.peers;
    has_met_ = true;
  }
  /// Yields the core for a while, then sleeps, until all have come.
  void await_circle(thread_context::lock_type& lock) {
    if (yields_until([&] { return has_met_.load(); })) return;
    lock.lock();
    while (!has_met_) {
      auto const who = context_->room().find_circle(named_.me, found_);  // the missing rank
      await(lock, who,
            [&] { return has_met_ || context_->room().find_circle(named_.me, found_) != who; });
    }
    lock.unlock();
  }
  /// Checks the messages of peers, and finds their memory. Ranks at a meeting do not change their
  /// messages.
  void prepare_for_meeting(visit prepare) {
    try {
      for (auto const from : circle_->ranks()) {
        auto const& sender = context_->member(from)->named_;
        if (!named_.peers.contains(from) && !sender.peers.contains(named_.me)) continue;
        auto const complaint =
            named_.mismatch(sender.sequence, sender.label, sender.staged[named_.me.index()], from);
        if (!complaint.empty()) throw context_->disagreement(named_.me, from, complaint);
      }
      for (auto const& message : named_.order)
        borrowed_[message.number] =
            context_->member(message.from)->named_.staged[named_.me.index()][message.place].bytes;
      prepare(borrowed_);
    } catch (...) {
      refused_ = std::current_exception();
    }
  }
  /// On the host: all ranks are prepared. If one of them has failed to prepare, none is served.
  void serve_circle(thread_context::lock_type& lock, serve_all serve) {
    auto const& ranks = circle_->ranks();
    auto const refuses = [&](rank_id rank) { return context_->member(rank)->refused_ != nullptr; };
    if (auto const bad = std::ranges::find_if(ranks, refuses); bad != ranks.end()) {
      for (auto const rank : ranks) context_->member(rank)->dropped_by_ = *bad;
    } else {
      serve({ranks, [&](rank_id rank, std::exception_ptr thrown) {
               auto& refused = context_->member(rank)->refused_;
               if (!refused) refused = std::move(thrown);
             }});
    }
    circle_->end();
    for (auto const rank : ranks) wake(lock, rank);
  }
  /// Waits for the ranks at the meeting, which wait for no others.
  template <class IsReached>
  void await_at_meeting(thread_context::lock_type& lock, IsReached is_reached) {
    if (yields_until(is_reached)) return;
    lock.lock();
    context_->sleep_at_meeting(lock, named_.me, is_reached);
    lock.unlock();
  }
  /// To be called after a change for which a rank may wait at the meeting.
  void wake(thread_context::lock_type& lock, rank_id rank) const {
    if (!context_->anyone_sleeps_at_meeting()) return;
    lock.lock();
    context_->wake(rank);
    lock.unlock();
  }
  /// Waits until a peer has failed.
  /// @throws peer_failed
  void await_failure(thread_context::lock_type& lock, rank_id peer) {
    lock.lock();
    await(lock, peer, [] { return false; });
  }
  /// Polls for a while, and yields the core meanwhile.
  template <class Done>
  [[nodiscard]] bool yields_until(Done done) const {
    for (auto yields = context_->most_yields_at_meetings(); yields != 0 && !done(); --yields)
      std::this_thread::yield();
    return done();
  }

  template <class Done>
  void await(thread_context::lock_type& lock, rank_id peer, Done done) {
    context_->await(lock, named_.me, peer, named_.sequence, named_.label, nullptr, done);
  }

  thread_context* context_;
  thread_messages const& named_;
  std::vector<std::span<std::byte const>> borrowed_;
  std::exception_ptr refused_;
  std::optional<rank_id> dropped_by_;  // the rank that failed to prepare: none is served
  std::vector<rank_id> found_;         // reused
  std::atomic<bool> has_met_ = false;  // of a rank that has come to the room
  known_circle* circle_ = nullptr;     // where it has met last, if it has
  rank_id host_{-1};                   // there
  std::uint64_t turn_ = 0;             // there, the present or the next one
  rank_set known_peers_;               // its peers there
};

}  // namespace fssdp::detail
