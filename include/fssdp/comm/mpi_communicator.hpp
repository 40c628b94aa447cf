// SPDX-License-Identifier: Apache-2.0
/// A rank that is a process, over MPI.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/mpi_batch.hpp"
#include "fssdp/comm/mpi_call.hpp"
#include "fssdp/comm/mpi_monitor.hpp"
#include "fssdp/comm/mpi_requests.hpp"
#include "fssdp/comm/mpi_wait.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

class mpi_communicator;

/// A rank of an MPI communicator that is the user's: borrowed, not freed; while this lives, errors
/// on it are returned, and nobody else sends or receives on it. Buffers are host memory.
///
/// Wherever a rank fails in an exchange, it tells all others; a lane that has failed stays so, and
/// so do its duplicates: each later call throws at once, on that rank what it has failed by. It
/// awaits no more than 0.2 s that peers let go of its memory: what they send may come in later.
///
/// Open MPI over TCP sends a process SIGPIPE when it writes to one that has died: it goes on only
/// if that is ignored, to which an mpi_world that initialises MPI sees.
/// MPICH tells the error handler of MPI_COMM_WORLD of some errors in exchanges, lost connections
/// among them; an mpi_world that initialises MPI has them returned.
///
/// Different lanes may be driven by different threads if MPI has been initialised for it
/// (MPI_THREAD_SERIALIZED): a lock that a communicator shares with its duplicates sees to that one
/// thread at a time calls MPI. Other calls of MPI need another thread level or another time.
/// @cost per exchange: for each rank that something is sent to, a header of 128 bytes besides the
///       messages; no allocation but MPI's own once the largest batch has been seen; messages that
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
                {}} {}
  mpi_ref(mpi_ref&&) noexcept = default;
  mpi_ref& operator=(mpi_ref&&) = delete;
  ~mpi_ref() {
    if (monitor_ == nullptr) return;
    auto const lock = monitor_->lock();
    if (monitor_->has_failed()) {
      own_.abandon();
      if (requests_ != nullptr && requests_->any_active()) {
        new auto{std::move(batch_)};  // MPI may still read them, and write to them: they stay
        new auto{std::move(repeats_)};
      }
    } else {
      if (detail::mpi_is_running()) repeats_.free();
      own_.close();
    }
  }

  [[nodiscard]] rank_id rank() const { return monitor_->rank(); }
  [[nodiscard]] int size() const { return monitor_->size(); }
  /// The communicator of MPI's behind it.
  [[nodiscard]] MPI_Comm handle() const { return comm_; }

  /// @throws ranks_disagree, peer_failed, deadline_exceeded, transport_error with what MPI says;
  ///         what `post` throws, before anything is sent: the other ranks then get a peer_failed;
  ///         argument_error if MPI takes no calls from this thread
  template <class Post>
  void exchange(Post&& post) {
    begin();
    transact(
        [&] {
          auto batch = receiving{{batch_}};
          post(batch);
        },
        [](std::size_t, std::span<std::byte const>, gate&) {});
  }

  /// Optional extra: passes messages on as they come in (forwarding_communicator). What is borrowed
  /// is received into memory that the communicator keeps.
  /// @throws as exchange; what `arrived` throws; argument_error if a held message is let go twice
  ///         or never, or one that is not held
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    begin();
    transact(
        [&] {
          auto batch = forwarding{{{batch_}}};
          post(batch);
        },
        arrived);
  }

  /// Another lane between the same ranks. Collective: every rank makes the same duplicates in the
  /// same order.
  /// @throws deadline_exceeded, which names rank -1, if not all ranks do; peer_failed
  [[nodiscard]] mpi_communicator duplicate();

  /// Says that this rank takes part in nothing any more, in no lane, and waits until all others do;
  /// twice the deadline, so that those who await a rank that is missing find out before. `thrown`
  /// is what the rank leaves by: the others then get a peer_failed.
  /// @pre no other thread exchanges
  /// @throws deadline_exceeded that names a rank whose farewell has not come: MPI_Finalize would
  ///         wait for it; peer_failed if all have left, one of them by an exception, and `thrown`
  ///         is null
  void leave(std::exception_ptr const& thrown = nullptr) {
    auto lock = monitor_->lock();
    if (thrown != nullptr) monitor_->fail(thrown);
    monitor_->leave(thrown);
    auto pace = detail::wait_pace{};
    auto const limit = 2 * monitor_->options().deadline;
    auto const until = std::chrono::steady_clock::now() + limit;
    for (;;) {
      monitor_->listen();
      auto const missing = monitor_->still_there();
      if (!missing.has_value()) break;
      if (std::chrono::steady_clock::now() > until) {
        auto const what = detail::text("rank ", rank(), " is through, and rank ", *missing,
                                       " does not leave within ", limit.count(), " ms");
        monitor_->fail(*missing, what);
        throw deadline_exceeded{*missing, what};
      }
      lock.unlock();
      pace.rest();
      lock.lock();
    }
    if (thrown == nullptr && monitor_->any_threw()) monitor_->check();
  }

 private:
  friend mpi_communicator;
  using message = detail::mpi_batch::message;
  using part_kind = detail::mpi_part_kind;

  struct receiving {
    detail::mpi_batch& batch;
    void send(std::span<std::byte const> bytes, rank_id to) { batch.send(bytes, to, false); }
    void recv(std::span<std::byte> bytes, rank_id from) { batch.recv(bytes, from); }
    void label(batch_label const& value) { batch.label(value); }
  };
  struct forwarding : receiving {
    void hold(std::span<std::byte const> bytes, rank_id to) { this->batch.send(bytes, to, true); }
    void borrow(std::size_t bytes, rank_id from) { this->batch.borrow(bytes, from); }
  };
  /// Lets held messages go.
  struct gate {
    mpi_ref& comm;
    void release(std::size_t number) {
      auto const lock = comm.monitor_->lock();
      auto const out = comm.batch_.out();
      detail::require(number < out.size(), "forward: message ", number,
                      " is let go; expected one of ", out.size());
      detail::require(out[number].held, "forward: message ", number,
                      " is let go; expected one that is held");
      comm.batch_.let_go(out[number]);
      comm.start(out[number]);
    }
  };

  /// `own` is the lane's own communicator, none for the first lane, whose is the monitor's.
  mpi_ref(std::shared_ptr<detail::mpi_monitor> monitor, detail::mpi_handle own)
      : monitor_{std::move(monitor)},
        own_{std::move(own)},
        comm_{own_.comm() != MPI_COMM_NULL ? own_.comm() : monitor_->home()},
        lane_{monitor_->new_lane()},
        batch_{monitor_->rank(), monitor_->part_bytes(), monitor_->most_tag()} {}

  void begin() {
    monitor_->check_thread();
    auto const lock = monitor_->lock();
    monitor_->check();
    batch_.clear(++sequence_);
    requests_ = nullptr;
    ready_.clear();
  }

  /// Names the messages, moves them, and calls arrived for each that has come in. If anything
  /// fails, all others are told before the exception goes on.
  template <class Name, class Arrived>
  void transact(Name name, Arrived&& arrived) {
    try {
      name();
      batch_.lay_out();
      auto lock = monitor_->lock();
      start();
      auto wait = detail::mpi_wait{*monitor_, lane_};
      auto const listen = [&] {
        monitor_->listen_at_times();
        monitor_->check();
      };
      while (undelivered_ != 0 || unsent_ != 0) {
        if (undelivered_ == 0) check_held();
        if (requests_->test([&](std::size_t i, int code) { ended(batch_.parts()[i], code); })) {
          wait.renew();
          if (ready_.empty()) continue;
          listen();  // who has failed may have let go of what came in just now
          {
            auto const open = detail::mpi_unlocked{lock};
            deliver(arrived);
          }
          wait.renew();
        } else {
          wait.rest(lock);  // listens
          check_peers(wait);
        }
      }
      listen();
      check_held();
    } catch (...) {
      give_up(std::current_exception());
      throw;
    }
  }

  /// Begins to receive headers, and to send them and what is not held.
  void start() {
    auto const parts = batch_.parts();
    requests_ = &repeats_.requests_of(parts, comm_);
    undelivered_ = batch_.in().size();
    ready_.reserve(undelivered_);
    unsent_ = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].kind == part_kind::header_out) monitor_->count_sent(parts[i].peer);
      if (!parts[i].comes_in()) ++unsent_;
      if (parts[i].is_header()) start_part(i);
    }
    for (auto const& m : batch_.out())
      if (!m.held) start(m);
  }
  void start(message const& of) {
    for (auto i = of.part; i < of.part + of.parts; ++i) start_part(i);
  }

  void start_part(std::size_t i) {
    auto const& part = batch_.parts()[i];
    if (!part.comes_in()) monitor_->look_at(part.peer);
    requests_->start(i, part, comm_);
  }

  /// MPI is through with a part.
  void ended(detail::mpi_part const& part, int code) {
    auto& peer = batch_.of(part.peer);
    switch (part.kind) {
      case part_kind::header_in:
        detail::mpi_require(code, part.peer, "exchange: receiving a header");
        accept(part.peer, peer);
        break;
      case part_kind::message_in:
        detail::mpi_require(code, part.peer, "exchange: receiving");
        if (--batch_.in()[part.message].missing == 0) ready_.push_back(part.message);
        break;
      default:
        detail::mpi_require(code, part.peer, "exchange: sending");
        --peer.unsent_parts;
        --unsent_;
    }
  }
  /// A peer's header has come: its messages are received if they are what is wanted. Not before:
  /// none comes to where it does not fit, which is an error that MPICH does not return.
  void accept(rank_id from, detail::mpi_batch::peer& peer) {
    monitor_->count_received(from);
    auto const difference = peer.wants.difference(peer.comes);
    if (!difference.empty())
      throw ranks_disagree{
          from, detail::text("rank ", rank(), " and rank ", from, " disagree: ", difference)};
    peer.accepted = true;
    for (auto const& m : batch_.in())
      if (m.peer == from) start(m);
  }
  template <class Arrived>
  void deliver(Arrived& arrived) {
    auto let_go = gate{*this};
    for (auto const i : ready_) {
      auto& m = batch_.in()[i];
      m.delivered = true;
      --undelivered_;
      --batch_.of(m.peer).undelivered;
      arrived(i, std::span<std::byte const>{m.data, m.bytes}, let_go);
    }
    ready_.clear();
  }

  void check_held() const {
    detail::require(batch_.held() == 0, "forward: ", batch_.held(),
                    " messages are held when all has arrived; expected all to be let go");
  }
  /// @throws peer_failed if a rank has failed, or one that is awaited has left; deadline_exceeded
  ///         if it takes too long
  void check_peers(detail::mpi_wait& wait) {
    monitor_->check();
    auto const peer = batch_.awaited();
    auto const awaits = [&](rank_id whom) {
      return detail::text("rank ", rank(), " awaits rank ", whom, " in exchange ",
                          batch_.sequence(), ", round ", batch_.label().round, " of plan ",
                          std::hex, batch_.label().plan);
    };
    if (monitor_->any_has_left()) {
      for (auto const other : first_n<rank_id>(size())) {
        auto const& of = batch_.of(other);
        if ((of.undelivered == 0 || of.accepted || !monitor_->is_silent(other)) &&
            (of.unsent_parts == 0 || !monitor_->is_deaf(other)))
          continue;
        auto const what = detail::text("rank ", other, " has left the world: ", awaits(other));
        monitor_->fail(other, what);
        throw peer_failed{other, what};
      }
    }
    if (auto const missing = wait.missing(peer)) {
      auto const what = detail::text("no sign of rank ", *missing, " within ",
                                     monitor_->options().deadline.count(), " ms: ", awaits(peer));
      monitor_->fail(*missing, what);
      throw deadline_exceeded{*missing, what};
    }
  }

  /// Tells the others, takes back what this rank wants, and waits a little until MPI is through
  /// with its memory.
  void give_up(std::exception_ptr const& thrown) {
    auto lock = monitor_->lock();
    monitor_->fail(thrown);
    if (requests_ == nullptr) return;
    requests_->cancel(batch_.parts());
    auto pace = detail::wait_pace{};
    auto const until = std::chrono::steady_clock::now() + detail::mpi_monitor::memory_stays;
    while (requests_->any_active() && std::chrono::steady_clock::now() < until)
      if (!requests_->test([](std::size_t, int) {})) {
        lock.unlock();
        pace.rest();
        lock.lock();
      }
  }

  std::shared_ptr<detail::mpi_monitor> monitor_;
  detail::mpi_handle own_;
  MPI_Comm comm_;
  int lane_;
  std::uint64_t sequence_ = 0;
  detail::mpi_batch batch_;
  detail::mpi_repeats repeats_;
  detail::mpi_requests* requests_ = nullptr;  // of this batch
  std::size_t undelivered_ = 0;               // messages
  std::size_t unsent_ = 0;                    // parts and headers
  std::vector<std::size_t> ready_;            // messages that have come in
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
                {}} {}

 private:
  friend mpi_ref;
  mpi_communicator(std::shared_ptr<detail::mpi_monitor> monitor, detail::mpi_handle own)
      : mpi_ref{std::move(monitor), std::move(own)} {}
};

inline mpi_communicator mpi_ref::duplicate() {
  monitor_->check_thread();
  {
    auto const lock = monitor_->lock();
    monitor_->listen();
    monitor_->check();
  }
  return {monitor_, detail::mpi_duplicate(comm_, monitor_->options(), monitor_.get())};
}

static_assert(forwarding_communicator<mpi_ref>);
static_assert(forwarding_communicator<mpi_communicator>);

}  // namespace fssdp
