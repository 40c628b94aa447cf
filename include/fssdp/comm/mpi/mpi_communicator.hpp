// SPDX-License-Identifier: Apache-2.0
/// A rank that is a process, over MPI.
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_context.hpp"
#include "fssdp/comm/mpi/mpi_monitor.hpp"
#include "fssdp/comm/mpi/mpi_shrink.hpp"
#include "fssdp/comm/mpi/mpi_split.hpp"
#include "fssdp/comm/mpi/mpi_wait.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

class mpi_communicator;

/// A rank of an MPI communicator of the user, which is not freed. While this object lives, errors
/// on the communicator are returned, and nothing else may use it. Buffers are in host memory.
///
/// If a rank fails in an exchange, it notifies all others. A failed communicator stays failed, and
/// so do its duplicates: each later call throws at once, on the failed rank its own error. After a
/// failure it waits at most 0.2 s until peers no longer read its memory; messages may still arrive
/// in it later.
///
/// Ranks of the same host read sent data in place if it is in the memory of mpi_options::shared:
/// they copy it once, bypassing the caches, or sum it in place. All other data is sent in messages.
///
/// Open MPI over TCP raises SIGPIPE when it writes to a process that has died; the signal must be
/// ignored to continue. MPICH calls the error handler of MPI_COMM_WORLD for some errors in
/// exchanges, such as lost connections. An mpi_world that initializes MPI takes care of both.
///
/// Different communicators may be used by different threads if MPI was initialized for it
/// (MPI_THREAD_SERIALIZED): a communicator shares a lock with its duplicates, so that one thread at
/// a time calls MPI. Other MPI calls of the program need a higher thread level, or must not
/// overlap.
/// @cost per exchange: for each receiving rank, a header of 136 bytes. Messages of up to 16 KiB in
///       all follow it in the same message of MPI, for which they are copied; longer ones are sent
///       one by one. If the receiver reads some in place: 16 bytes for each message, and an empty
///       reply. No allocation except MPI's own, if there has been a batch as large before; for each
///       peer that messages come from or go to, a buffer of 16 KiB. Repeated messages with the same
///       addresses use persistent requests
class mpi_ref {
 public:
  using stream_type = inline_stream;
  using memory_space = host_memory;

  /// Collective.
  /// @pre MPI is initialized
  /// @throws argument_error if the deadline or a size is not positive; deadline_exceeded (with rank
  ///         -1) if not all ranks come
  explicit mpi_ref(MPI_Comm comm, mpi_options const& options = {})
      : mpi_ref{std::make_shared<detail::mpi_monitor>(detail::mpi_handle::borrow(comm),
                                                      detail::mpi_checked(options)),
                {},
                0} {}

  [[nodiscard]] rank_id rank() const { return context_->group().me; }
  [[nodiscard]] int size() const { return context_->group().ranks.size(); }
  /// The communicator of MPI.
  [[nodiscard]] MPI_Comm handle() const { return context_->group().comm; }

  /// @throws ranks_disagree, peer_failed, deadline_exceeded, transport_error with MPI's text; what
  ///         `post` throws, before anything is sent: the other ranks then get a peer_failed;
  ///         argument_error if MPI does not accept calls from this thread
  template <class Post>
  void exchange(Post&& post) {
    context_->exchange(std::forward<Post>(post));
  }

  /// Optional: reads peers' memory in place (lending_communicator) where it is shared
  /// (mpi_options::shared). Other data is received in memory of the communicator, as large as the
  /// largest batch requires.
  /// @throws as exchange; what `visit` throws: the other ranks then get a peer_failed
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    context_->lend(std::forward<Post>(post), std::forward<Visit>(visit));
  }

  /// Optional: forwarding (forwarding_communicator). Borrowed data is received in memory of the
  /// communicator, or read in place.
  /// @throws as exchange; what `arrived` throws; argument_error if a deferred send is released
  ///         twice or never, or a message is released that is not deferred
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    context_->forward(std::forward<Post>(post), std::forward<Arrived>(arrived));
  }

  /// Another communicator between the same ranks. Collective: every rank makes the same duplicates
  /// in the same order.
  /// @throws deadline_exceeded (with rank -1) if not all ranks do; peer_failed
  [[nodiscard]] mpi_communicator duplicate();

  /// Optional: the group of the ranks with the same color (splittable_communicator), ordered by
  /// key; empty for a rank with no_color. Collective. It uses MPI_Comm_split, so only one thread of
  /// a rank may call it at a time. Groups share lock, deadline and failures with the communicator
  /// that they are made from: if a rank fails, all others get the error, in the group or not.
  /// Errors name ranks of the world, which is the first communicator.
  /// @throws as duplicate; argument_error if the color is negative and not no_color
  [[nodiscard]] std::optional<mpi_communicator> split(int color, int key = 0);
  /// Optional: the lost ranks, on which all remaining ranks agree (survivable_communicator), and a
  /// communicator between the remaining ranks (shrinkable_communicator). Collective among the
  /// remaining ranks. Requires an MPI with ULFM, and waits as long as that does.
  /// @throws argument_error if this MPI has no ULFM: restart the run from its last checkpoint;
  ///         transport_error with MPI's text
  [[nodiscard]] std::vector<rank_id> find_lost() {
    return detail::mpi_find_lost(handle(), monitor());
  }
  [[nodiscard]] mpi_communicator without(std::span<rank_id const> lost);
  /// The rank of the world that a rank is; they differ in groups.
  /// @throws argument_error unless it is a rank of this communicator
  [[nodiscard]] rank_id world_rank(rank_id rank) const {
    return context_->group().ranks.checked_world_rank(rank);
  }

  /// Whether this rank has continued without lost ranks, in another communicator (without).
  [[nodiscard]] bool is_replaced() const {
    auto const lock = monitor().lock();
    return monitor().goes_on_elsewhere();
  }

  /// Declares that this rank takes part in no more calls, of this communicator, its duplicates and
  /// groups, and those that it was made from, and waits until all others have done so; twice the
  /// deadline, so that ranks that wait for a missing rank detect that before. `thrown` is the
  /// exception of this rank, if any: the others then get a peer_failed. If ranks were lost, and
  /// this one has continued without them (without), it does nothing.
  /// @pre no other thread is in an exchange
  /// @throws deadline_exceeded with a rank that has not left: MPI_Finalize would wait for it;
  ///         peer_failed if all have left, one of them by an exception, and `thrown` is null
  void leave(std::exception_ptr const& thrown = nullptr) {
    auto lock = monitor().lock();
    if (monitor().goes_on_elsewhere()) return;
    if (thrown != nullptr) monitor().fail(thrown);
    monitor().leave(thrown);
    auto pace = detail::wait_pace{};
    auto const limit = 2 * detail::countable(monitor().options().deadline);
    auto const until = std::chrono::steady_clock::now() + limit;
    for (;;) {
      monitor().listen();
      auto const missing = monitor().still_there();
      if (!missing.has_value()) break;
      if (std::chrono::steady_clock::now() > until) {
        auto const what = detail::text("rank ", monitor().rank(), " has finished, and rank ",
                                       *missing, " does not leave within ", limit.count(), " ms");
        monitor().fail(*missing, what);
        throw deadline_exceeded{*missing, what};
      }
      lock.unlock();
      pace.rest();
      lock.lock();
    }
    if (thrown == nullptr && monitor().any_threw()) monitor().check();
  }

 private:
  friend mpi_communicator;
  mpi_ref(std::shared_ptr<detail::mpi_monitor> monitor, detail::mpi_handle own, int number)
      : context_{
            std::make_unique<detail::mpi_context>(std::move(monitor), std::move(own), number)} {}
  /// Checks for failures before all ranks meet to make another communicator.
  void check() const {
    monitor().check_thread();
    auto const lock = monitor().lock();
    monitor().listen();
    monitor().check();
  }
  [[nodiscard]] detail::mpi_monitor& monitor() const { return *context_->monitor(); }

  std::unique_ptr<detail::mpi_context> context_;
};

/// A rank of a duplicate of an MPI communicator, so messages of the user on the original are
/// separate. The duplicate is freed at the end, unless a rank has failed or MPI was finalized
/// before.
class mpi_communicator : public mpi_ref {
 public:
  /// Collective.
  /// @pre MPI is initialized
  /// @throws as mpi_ref
  explicit mpi_communicator(MPI_Comm of, mpi_options const& options = {})
      : mpi_ref{std::make_shared<detail::mpi_monitor>(
                    detail::mpi_duplicate(of, detail::mpi_checked(options), nullptr), options),
                {},
                0} {}

 private:
  friend mpi_ref;
  mpi_communicator(std::shared_ptr<detail::mpi_monitor> monitor, detail::mpi_handle own, int number)
      : mpi_ref{std::move(monitor), std::move(own), number} {}
};

inline mpi_communicator mpi_ref::duplicate() {
  check();
  auto made = detail::mpi_duplicate(handle(), monitor().options(), &monitor());
  return {context_->monitor(), std::move(made), context_->next_child(no_color)};
}

inline std::optional<mpi_communicator> mpi_ref::split(int color, int key) {
  detail::check_color(color);
  check();
  auto made = detail::mpi_split(handle(), color, key, monitor());
  auto const number = context_->next_child(color);
  if (color == no_color) return {};
  return mpi_communicator{context_->monitor(), std::move(made), number};
}

inline mpi_communicator mpi_ref::without(std::span<rank_id const> lost) {
  auto const ranks = detail::checked_lost(lost, rank(), size());
  auto const left = detail::mpi_shrunk(handle(), ranks, monitor());
  auto made = mpi_communicator{left.comm(), monitor().options()};
  auto const lock = monitor().lock();
  monitor().go_on_elsewhere();
  return made;
}

static_assert(survivable_communicator<mpi_ref>);
static_assert(survivable_communicator<mpi_communicator>);
static_assert(lending_communicator<mpi_ref>);
static_assert(lending_communicator<mpi_communicator>);
static_assert(forwarding_communicator<mpi_ref>);
static_assert(forwarding_communicator<mpi_communicator>);
static_assert(splittable_communicator<mpi_ref>);
static_assert(splittable_communicator<mpi_communicator>);

}  // namespace fssdp
