// SPDX-License-Identifier: Apache-2.0
/// How a thread takes part in meetings: it comes, prepares, and waits or serves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

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
      : context_{&context}, named_{named} {
    circle_.reserve(named.staged.size());
  }

  /// As meet of the communicator.
  void meet(visit prepare, serve_all serve) {
    auto lock = context_->lock();
    context_->check(named_.me);
    try {
      come_to_meeting();
      lock.unlock();
      await_circle(lock);
      prepare_for_meeting(prepare);
      host_->note_prepared(lock);
      if (host_ == this) {
        await_stage(lock, meeting::is_prepared);
        serve_circle(lock, serve);
      }
      await_stage(lock, meeting::is_over);
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
  /// The state of a rank at a meeting.
  enum class meeting { comes, is_there, is_prepared, is_over };

  /// If all ranks that are connected with this one by messages have come, they meet. The lowest
  /// rank is the host and serves them. It is not the last one to come, as its data would then move
  /// from core to core.
  void come_to_meeting() {
    auto& room = context_->room();
    borrowed_.resize(named_.order.size());
    refused_ = nullptr;
    dropped_by_.reset();
    stage_ = meeting::comes;
    if (context_->member(named_.me) != this) context_->member(named_.me) = this;
    room.enter(named_.me, named_.peers, named_.sequence);
    if (room.find_circle(named_.me, circle_) != named_.me) return;
    auto& host = *context_->member(*std::ranges::min_element(circle_));
    if (&host != this) std::swap(host.circle_, circle_);
    host.unprepared_ = host.circle_.size();
    for (auto const rank : host.circle_) {
      room.leave(rank);
      auto& of = *context_->member(rank);
      of.host_ = &host;
      of.stage_ = meeting::is_there;
      if (rank != named_.me) context_->wake(rank);
    }
  }
  /// Yields the core for a while, then sleeps, until all have come.
  void await_circle(thread_context::lock_type& lock) {
    if (yields_until([&] { return stage_ != meeting::comes; })) return;
    lock.lock();
    while (stage_ == meeting::comes) {
      auto const who = context_->room().find_circle(named_.me, circle_);  // the missing rank
      await(lock, who, [&] {
        return stage_ != meeting::comes || context_->room().find_circle(named_.me, circle_) != who;
      });
    }
    lock.unlock();
  }
  /// Checks the messages of peers, and finds their memory. Ranks at a meeting do not change their
  /// messages.
  void prepare_for_meeting(visit prepare) {
    try {
      for (auto const from : host_->circle_) {
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
  /// On the host: counts a rank that is prepared. Called by the thread of that rank.
  void note_prepared(thread_context::lock_type& lock) {
    auto& context = *context_;  // the host may be gone after it was notified
    auto const me = named_.me;
    if (unprepared_.fetch_sub(1) != 1) return;
    stage_ = meeting::is_prepared;
    if (!context.anyone_sleeps_at_meeting()) return;
    lock.lock();
    context.wake(me);
    lock.unlock();
  }
  /// On the host: all ranks are prepared. If one of them has failed to prepare, none is served.
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
    for (auto const rank : circle_) context_->member(rank)->stage_ = meeting::is_over;
    if (!context_->anyone_sleeps_at_meeting()) return;
    lock.lock();
    for (auto const rank : circle_) context_->wake(rank);
    lock.unlock();
  }
  /// Waits for the ranks at the meeting, which wait for no others.
  void await_stage(thread_context::lock_type& lock, meeting stage) {
    auto const is_reached = [&] { return stage_ == stage; };
    if (yields_until(is_reached)) return;
    lock.lock();
    context_->sleep_at_meeting(lock, named_.me, is_reached);
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
  std::atomic<meeting> stage_ = meeting::is_over;
  std::exception_ptr refused_;
  std::optional<rank_id> dropped_by_;        // the rank that failed to prepare: none is served
  std::vector<rank_id> circle_;              // of the host: the ranks at its meeting
  std::atomic<std::size_t> unprepared_ = 0;  // of the host: how many are not prepared
  meeting_guest* host_ = nullptr;
};

}  // namespace fssdp::detail
