// SPDX-License-Identifier: Apache-2.0
/// The shared state of threads that communicate: mailboxes with pointers, and one failure for all.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/comm/thread/known_circle.hpp"
#include "fssdp/comm/thread/meeting_room.hpp"
#include "fssdp/comm/thread/port_network.hpp"
#include "fssdp/comm/thread/rank_signal.hpp"
#include "fssdp/comm/thread/roll_call.hpp"
#include "fssdp/comm/thread/shared_copy.hpp"
#include "fssdp/comm/thread/thread_monitor.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

class meeting_guest;

/// The messages from one rank to another in one exchange. The memory belongs to the sender; the
/// receiver reads it in place and returns the mailbox.
struct thread_mailbox {
  enum class state { empty, posted, reading };
  state now = state::empty;
  std::uint64_t sequence = 0;
  batch_label label;
  struct message {
    std::span<std::byte const> bytes;
    bool there = false;  ///< the receiver may read it
  };
  std::vector<message> messages;
  std::size_t missing = 0;  ///< messages whose data is not there yet
  int awaited = 0;          ///< threads that sleep until this mailbox changes

  std::vector<std::size_t> turns;  ///< the position of each message in the receiver's order, from 1
  std::uint64_t turns_of = 0;      ///< the number of that exchange
};

/// One communicator between all ranks of a world or some: a mailbox for every ordered pair of them.
/// Functions take ranks of the communicator; the monitor, which all communicators of a world share,
/// uses ranks of the world. Functions require the lock, unless they say otherwise.
class thread_context {
 public:
  using lock_type = std::unique_lock<std::mutex>;

  thread_context(thread_monitor& monitor, thread_failures& failures, group_ranks ranks)
      : monitor_{monitor},
        failures_{failures},
        ranks_{std::move(ranks)},
        boxes_(static_cast<std::size_t>(ranks_.size()) * static_cast<std::size_t>(ranks_.size())),
        room_{static_cast<std::size_t>(ranks_.size())},
        roll_{static_cast<std::size_t>(ranks_.size())},
        members_(static_cast<std::size_t>(ranks_.size())),
        circles_(members_.size()),
        hosts_(members_.size(), rank_id{-1}),
        awaited_in_(members_.size()),
        children_made_(static_cast<std::size_t>(ranks_.size())),
        left_made_(static_cast<std::size_t>(ranks_.size())) {
    for (auto& circle : circles_) circle.ranks().reserve(members_.size());
  }

  /// Without the lock.
  [[nodiscard]] group_ranks const& ranks() const { return ranks_; }
  [[nodiscard]] bool is_throttled() const { return monitor_.network.has_value(); }
  [[nodiscard]] lock_type lock() {
    auto lock = unlocked();
    lock_again(lock);
    return lock;
  }
  [[nodiscard]] lock_type unlocked() { return lock_type{monitor_.mutex, std::defer_lock}; }
  static void lock_again(lock_type& lock) { rank_signal::lock_soon(lock); }
  [[nodiscard]] thread_mailbox& box(rank_id from, rank_id to) {
    return boxes_[from.index() * static_cast<std::size_t>(ranks_.size()) + to.index()];
  }
  /// To be called when a mailbox has changed: wakes a rank that waits for that.
  void notify(rank_id rank, thread_mailbox const& box) {
    if (box.awaited > 0 || monitor_.waits_for_any(in_world(rank)) > 0)
      changed(rank).notify_all();
    else
      changed(rank).note();
  }

  /// For meetings (meeting_guest).
  [[nodiscard]] meeting_room& room() { return room_; }
  /// The guest of a rank; null until it first comes to a meeting.
  [[nodiscard]] meeting_guest*& member(rank_id rank) { return members_[rank.index()]; }
  /// Where the ranks meet that a rank serves. Without the lock, but for opening it.
  [[nodiscard]] known_circle& circle(rank_id host) { return circles_[host.index()]; }
  /// The rank that has served a rank last; rank_id{-1} before the first time.
  [[nodiscard]] rank_id& host_of(rank_id rank) { return hosts_[rank.index()]; }
  /// Has a rank and its peers look for each other in the room when they come to a meeting.
  void close_circles(rank_id me, rank_set const& peers) {
    auto const close = [&](rank_id of) {
      if (auto const host = host_of(of); host.value() >= 0) circle(host).close();
      return true;
    };
    close(me);
    peers.for_each(close);
  }
  /// Wakes a rank that waits at a meeting.
  void wake(rank_id rank) { changed(rank).notify_all(); }
  /// How often a rank yields its core at a meeting before it sleeps: rarely, unless there is a core
  /// for each rank.
  [[nodiscard]] int most_yields_at_meetings() const {
    return has_core_for_each() ? 100 * most_yields : most_yields;
  }
  /// How often a rank polls before it takes the lock to check.
  [[nodiscard]] int most_looks() const { return has_core_for_each() ? 100 : 1; }
  /// Whether any rank has to be woken at the end of a meeting. To be called after the end was
  /// recorded.
  [[nodiscard]] bool anyone_sleeps_at_meeting() const { return asleep_ != 0; }
  template <class IsOver>
  void sleep_at_meeting(lock_type& lock, rank_id me, IsOver is_over) {
    ++asleep_;
    changed(me).wait(lock, is_over);
    --asleep_;
  }

  /// The context of the next duplicate or group that a rank makes: the same for all its ranks, as
  /// they all make them in the same order. It lives as long as this one. Without the lock.
  /// @param ranks of the group, in the world
  thread_context& child(rank_id me, int color, group_ranks const& ranks) {
    auto const guard = lock();
    auto& made = children_[{next_child(me), color}];
    if (made == nullptr) made = std::make_unique<thread_context>(monitor_, failures_, ranks);
    return *made;
  }
  /// To be called by a rank in no group, where others make one. Without the lock.
  void skip_child(rank_id me) {
    auto const guard = lock();
    (void)next_child(me);
  }

  /// Waits until the deadline for all ranks that have not left: those that have not come then are
  /// lost. After that no rank waits in any communicator made so far. Without the lock.
  /// @return the lost ranks, ascending; the same on all that have come
  /// @throws peer_failed if the others have continued without this rank
  [[nodiscard]] std::vector<rank_id> find_lost(rank_id me) {
    auto guard = lock();
    check_not_lost(me);
    monitor_.fail(failures_, in_world(me), text(ranks_.name(me), " asks who is lost"));
    auto const until = end_of(monitor_.deadline);
    auto const call = roll_.come(me);
    auto const is_gone = [&](rank_id rank) { return has_left(rank); };
    while (roll_.is_open(call))
      if (roll_.is_complete(is_gone) || !changed(me).wait_until(guard, until)) {
        if (roll_.is_open(call)) roll_.close();
        for (auto const rank : first_n<rank_id>(ranks_.size())) changed(rank).notify_all();
      }
    check_not_lost(me);
    return roll_.lost();
  }
  /// The context between the remaining ranks: the same for all that pass the same list. It lives as
  /// long as this one. Without the lock.
  /// @throws peer_failed if the others have continued without this rank
  thread_context& without(rank_id me, std::vector<rank_id> const& lost) {
    auto const guard = lock();
    check_not_lost(me);
    auto& made = left_[{left_made_[me.index()]++, lost}];
    if (made != nullptr) return *made;
    auto in_the_world = std::vector<rank_id>{};
    for (auto const rank : lost) in_the_world.push_back(in_world(rank));
    roll_.leave_out(lost);
    auto const left = ranks_.of(ranks_left(lost, ranks_.size()));
    made = std::make_unique<thread_context>(monitor_, monitor_.failures_between(left, in_the_world),
                                            left);
    return *made;
  }

  [[nodiscard]] bool has_left(rank_id rank) const { return monitor_.has_left(in_world(rank)); }
  /// Records, until the end of `await`, that a rank waits for a peer here.
  void remember(rank_id me, rank_id peer) {
    monitor_.remember(in_world(me), *this, in_world(peer));
  }
  void fail(rank_id failed_rank, std::exception_ptr const& thrown) {
    monitor_.fail(failures_, in_world(failed_rank), thrown);
  }
  /// The error for a peer that is in another collective.
  [[nodiscard]] ranks_disagree disagreement(rank_id me, rank_id peer,
                                            std::string const& complaint) const {
    return detail::disagreement(ranks_, me, peer, complaint);
  }

  /// Sends a message, the rank's message `number`: its data is there at once, or when the emulated
  /// network delivers it.
  void let_go(rank_id from, rank_id to, std::size_t index, std::size_t number) {
    auto& sent = box(from, to);
    if (monitor_.network.has_value()) {
      monitor_.network->offer(in_world(from), sent.messages[index].bytes.size(),
                              {&sent, sent.sequence, index, in_world(to), number},
                              port_network::clock::now());
      monitor_.network_changed.notify_all();
    } else {
      arrive({&sent, sent.sequence, index, in_world(to), number}, monitor_);
    }
  }
  /// The data of a message has arrived.
  static void arrive(port_network::address const& at, thread_monitor& monitor) {
    auto& sent = *static_cast<thread_mailbox*>(at.box);
    if (sent.now == thread_mailbox::state::empty || sent.sequence != at.sequence) return;
    sent.messages[at.index].there = true;
    --sent.missing;
    if ((sent.awaited > 0 && sent.missing == 0) || monitor.waits_for_any(at.to) > 0)
      monitor.changed(at.to).notify_all();
    else
      monitor.changed(at.to).note();
  }

  /// The position of a message in its receiver's order, from 1; 0 if the receiver has not added it
  /// yet.
  static std::size_t turn_of(port_network::address const& at) {
    auto const& box = *static_cast<thread_mailbox const*>(at.box);
    return box.turns_of == at.sequence && at.index < box.turns.size() ? box.turns[at.index] : 0;
  }

  /// Whether `check` would throw. Without the lock.
  [[nodiscard]] bool has_failed() const { return failures_.has_failed; }
  /// @throws peer_failed if a rank has failed; on the failed rank, its own exception
  void check(rank_id me) const {
    auto const& failed = failures_.failed;
    if (!failed.has_value()) return;
    if (failed->rank == in_world(me) && failed->thrown) std::rethrow_exception(failed->thrown);
    throw peer_failed{failed->rank, given_up_or_failed(ranks_.name(me), in_world(me), failed->rank,
                                                       failed->what)};
  }

  /// Waits until `done()`, for which `peer` is responsible: helps with copies of others, yields the
  /// core a few times, then sleeps. With an emulated network, it sleeps at once.
  /// @param box the only mailbox on which `done` depends; null if there are several
  /// @throws peer_failed if a rank has failed or `peer` has left; deadline_exceeded
  template <class Done>
  void await(lock_type& lock, rank_id me, rank_id peer, std::uint64_t sequence,
             batch_label const& label, thread_mailbox* box, Done done) {
    if (done()) return;
    auto const until = end_of(monitor_.deadline);
    remember(me, peer);
    awaited_in_[me.index()] = {sequence, label};
    auto const over = [&] { return done() || failures_.failed.has_value() || has_left(peer); };
    auto in_time = true;
    auto& sleepers = box != nullptr ? box->awaited : monitor_.waits_for_any(in_world(me));
    auto const patience = is_throttled() ? 0 : most_yields;
    for (auto yields = 0; in_time && !over(); ++yields)
      if (help(lock)) {
        yields = 0;
      } else if (yields < patience) {
        changed(me).look(lock, most_looks());
      } else {
        ++sleepers;
        in_time = changed(me).wait_until(lock, until);
        --sleepers;
      }
    in_time = in_time || over();
    auto const missing =
        in_time ? in_world(peer) : monitor_.end_of_queue(in_world(me), *this, in_world(peer));
    auto const other =
        !in_time && missing == in_world(peer) ? with_another_plan(peer, label.plan) : std::nullopt;
    monitor_.forget(in_world(me), *this);
    if (done()) return;
    check(me);
    if (other.has_value())
      throw disagreement(me, *other,
                         difference(awaited_in_[me.index()], awaited_in_[other->index()]));
    auto const awaits =
        text(ranks_.name(me), " awaits ", ranks_.name(peer), " in exchange ", sequence, ", round ",
             label.round, " of plan ", hexadecimal{label.plan});
    auto const dump = in_time ? text("rank ", missing, " has left the world: ", awaits)
                              : no_sign(missing, monitor_.deadline, awaits);
    monitor_.fail(failures_, missing, dump);
    if (in_time) throw peer_failed{missing, dump};
    throw deadline_exceeded{missing, dump};
  }

  /// Copies; ranks that wait help with a large copy. Without the lock.
  void copy(rank_id me, std::span<std::byte> to, std::span<std::byte const> from,
            std::size_t together) {
    if (from.size() < 2 * shared_copy::block_bytes) return copy_bytes(to, from, together);
    auto copy = shared_copy{in_world(me), to, from, together};
    auto guard = lock();
    monitor_.copies.offer(copy);
    monitor_.wake_a_waiting_rank(in_world(me));
    guard.unlock();
    copy.work();
    lock_again(guard);
    monitor_.copies.withdraw(copy);
    changed(me).wait(guard, [&] { return copy.helpers == 0; });
  }

  /// To be called when a rank leaves by an exception: returns the mailboxes that it reads,
  /// withdraws those that it has posted, and waits for peers that are reading them.
  void close(lock_type& lock, rank_id me) {
    using enum thread_mailbox::state;
    for (auto const other : first_n<rank_id>(ranks_.size())) {
      if (box(other, me).now == reading) box(other, me).now = empty;
      if (box(me, other).now == posted) box(me, other).now = empty;
      notify(other, box(me, other));
      notify(other, box(other, me));
    }
    ++monitor_.waits_for_any(in_world(me));
    for (auto const other : first_n<rank_id>(ranks_.size()))
      changed(me).wait(lock, [&] { return box(me, other).now == empty; });
    --monitor_.waits_for_any(in_world(me));
  }

 private:
  /// One of the ranks that wait for one another in this communicator, by another plan than this: why
  /// none of them ends. None if `peer`, one of them, waits in another communicator, or for nobody.
  [[nodiscard]] std::optional<rank_id> with_another_plan(rank_id peer, std::uint64_t plan) const {
    auto const waits = [&](rank_id rank) { return monitor_.is_waiting(in_world(rank), *this); };
    auto const differs = [&](rank_id rank) {
      return waits(rank) && awaited_in_[rank.index()].label.plan != plan;
    };
    if (differs(peer)) return peer;
    if (!waits(peer)) return std::nullopt;
    for (auto const rank : first_n<rank_id>(ranks_.size()))
      if (differs(rank)) return rank;
    return std::nullopt;
  }

  // Sleeping and waking takes longer than most peers need to post their messages.
  static constexpr int most_yields = 20;

  [[nodiscard]] bool has_core_for_each() const {
    static auto const cores = static_cast<int>(std::thread::hardware_concurrency());
    return cores >= ranks_.size();
  }
  bool help(lock_type& lock) {
    return monitor_.copies.help(lock,
                                [this](rank_id rank) { monitor_.changed(rank).notify_all(); });
  }
  [[nodiscard]] rank_id in_world(rank_id rank) const { return ranks_.world_rank(rank); }
  [[nodiscard]] rank_signal& changed(rank_id rank) { return monitor_.changed(in_world(rank)); }
  void check_not_lost(rank_id me) const {
    if (roll_.is_lost(me))
      throw peer_failed{in_world(me), text(ranks_.name(me),
                                           " has been lost: the others have gone on without it")};
  }
  [[nodiscard]] std::size_t next_child(rank_id me) { return children_made_[me.index()]++; }

  thread_monitor& monitor_;
  thread_failures& failures_;
  group_ranks ranks_;
  std::vector<thread_mailbox> boxes_;  // [from, to]
  meeting_room room_;
  roll_call roll_;
  std::vector<meeting_guest*> members_;    // [ranks]
  std::vector<known_circle> circles_;      // [ranks]: of each as a host
  std::vector<rank_id> hosts_;             // [ranks]: of each as a guest
  std::vector<exchange_name> awaited_in_;  // [ranks]: where each has waited last
  std::atomic<int> asleep_ = 0;            // number of ranks asleep at meetings
  std::map<std::pair<std::size_t, int>, std::unique_ptr<thread_context>>
      children_;                            // by number and color
  std::vector<std::size_t> children_made_;  // [ranks]
  std::map<std::pair<std::size_t, std::vector<rank_id>>, std::unique_ptr<thread_context>>
      left_;                            // by number and lost ranks
  std::vector<std::size_t> left_made_;  // [ranks]
};

}  // namespace fssdp::detail
