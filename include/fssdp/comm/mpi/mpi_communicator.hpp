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

/// A rank of an MPI communicator that is the user's: borrowed, not freed; while this lives, errors
/// on it are returned, and nobody else sends or receives on it. Buffers are host memory.
///
/// Wherever a rank fails in an exchange, it tells all others; a communicator that has failed stays
/// so, and so do its duplicates: each later call throws at once, on that rank what it has failed
/// by. It awaits no more than 0.2 s that peers let go of its memory: what they send may come in
/// later.
///
/// What is sent from the memory that mpi_options::shared names, ranks of the same host read there:
/// they copy it once, past the caches, or sum it in place. All else goes as messages.
///
/// Open MPI over TCP sends a process SIGPIPE when it writes to one that has died: it goes on only
/// if that is ignored, to which an mpi_world that initialises MPI sees.
/// MPICH tells the error handler of MPI_COMM_WORLD of some errors in exchanges, lost connections
/// among them; an mpi_world that initialises MPI has them returned.
///
/// Different communicators may be driven by different threads if MPI has been initialised for it
/// (MPI_THREAD_SERIALIZED): a communicator shares a lock with its duplicates, so that one thread at
/// a time calls MPI. Other calls of MPI need another thread level or another time.
/// @cost per exchange: for each rank that something is sent to, a header of 128 bytes besides the
///       messages; if it reads some of them in place, 16 bytes for each message, and an empty one
///       back; no allocation but MPI's own once the largest batch has been seen; messages that
///       repeat, at the same addresses, take persistent requests
class mpi_ref {
 public:
  using stream_type = inline_stream;
  using memory_space = host_memory;

  /// Collective.
  /// @pre MPI is initialised
  /// @throws argument_error if the deadline or a size is not positive; deadline_exceeded, which
  ///         names rank -1, if not all ranks come
  explicit mpi_ref(MPI_Comm comm, mpi_options const& options = {})
      : mpi_ref{std::make_shared<detail::mpi_monitor>(detail::mpi_handle::borrow(comm),
                                                      detail::mpi_checked(options)),
                {},
                0} {}

  [[nodiscard]] rank_id rank() const { return context_->group().me; }
  [[nodiscard]] int size() const { return context_->group().ranks.size(); }
  /// The communicator of MPI's behind it.
  [[nodiscard]] MPI_Comm handle() const { return context_->group().comm; }

  /// @throws ranks_disagree, peer_failed, deadline_exceeded, transport_error with what MPI says;
  ///         what `post` throws, before anything is sent: the other ranks then get a peer_failed;
  ///         argument_error if MPI takes no calls from this thread
  template <class Post>
  void exchange(Post&& post) {
    context_->exchange(std::forward<Post>(post));
  }

  /// Optional extra: reads peers' memory in place (lending_communicator), where they lend it
  /// (mpi_options::shared); all else is received into memory that the communicator keeps, as much
  /// as the largest batch takes.
  /// @throws as exchange; what `visit` throws: the other ranks then get a peer_failed
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    context_->lend(std::forward<Post>(post), std::forward<Visit>(visit));
  }

  /// Optional extra: passes messages on as they come in (forwarding_communicator). What is borrowed
  /// is received into memory that the communicator keeps, or looked at where it lies.
  /// @throws as exchange; what `arrived` throws; argument_error if a held message is let go twice
  ///         or never, or one that is not held
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    context_->forward(std::forward<Post>(post), std::forward<Arrived>(arrived));
  }

  /// Another communicator between the same ranks. Collective: every rank makes the same duplicates
  /// in the same order.
  /// @throws deadline_exceeded, which names rank -1, if not all ranks do; peer_failed
  [[nodiscard]] mpi_communicator duplicate();

  /// Optional extra: the group of the ranks that pass the same color (splittable_communicator), in
  /// the order of their keys; nothing for a rank that passes no_color. Collective: MPI_Comm_split
  /// makes it, so one thread of a rank at a time calls it. Groups share the lock, the deadline and
  /// failures with the communicator that they are made of: a rank that fails is named to all
  /// others, in the group or not. Errors name ranks of the world, which is the first communicator.
  /// @throws as duplicate; argument_error if the color is negative and not no_color
  [[nodiscard]] std::optional<mpi_communicator> split(int color, int key = 0);
  /// Optional extra: who is lost, as all ranks that are left agree (survivable_communicator), and
  /// another communicator between those (shrinkable_communicator). Collective among the ranks that
  /// are left; it takes an MPI with ULFM, and waits as long as that does.
  /// @throws argument_error if this MPI has none: the run has to begin again from its last
  ///         checkpoint; transport_error with what MPI says
  [[nodiscard]] std::vector<rank_id> find_lost() {
    return detail::mpi_find_lost(handle(), monitor());
  }
  [[nodiscard]] mpi_communicator without(std::span<rank_id const> lost);
  /// The rank in the world of a rank here, which is another one in a group.
  /// @throws argument_error unless it is a rank of this communicator
  [[nodiscard]] rank_id world_rank(rank_id rank) const {
    return context_->group().ranks.checked_world_rank(rank);
  }

  /// Says that this rank takes part in nothing any more, neither here nor in duplicates and groups
  /// nor in what they were made of, and waits until all others do; twice the deadline, so that
  /// those who await a rank that is missing find out before. `thrown` is what the rank leaves by:
  /// the others then get a peer_failed. Where ranks were lost, and this one has gone on without them
  /// (without), it does nothing.
  /// @pre no other thread exchanges
  /// @throws deadline_exceeded that names a rank whose farewell has not come: MPI_Finalize would
  ///         wait for it; peer_failed if all have left, one of them by an exception, and `thrown`
  ///         is null
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
  /// Before all ranks meet to make another communicator.
  void check() const {
    monitor().check_thread();
    auto const lock = monitor().lock();
    monitor().listen();
    monitor().check();
  }
  [[nodiscard]] detail::mpi_monitor& monitor() const { return *context_->monitor(); }

  std::unique_ptr<detail::mpi_context> context_;
};

/// A rank of a duplicate of an MPI communicator: what the user sends there does not meet it. The
/// duplicate is freed in the end, unless a rank has failed or MPI has been finalized before.
class mpi_communicator : public mpi_ref {
 public:
  /// Collective.
  /// @pre MPI is initialised
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
