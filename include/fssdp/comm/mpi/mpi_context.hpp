// SPDX-License-Identifier: Apache-2.0
/// The state of one communicator between processes: adds the messages of a batch, transfers them,
/// and passes them on.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/mpi/mpi_batch.hpp"
#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_monitor.hpp"
#include "fssdp/comm/mpi/mpi_requests.hpp"
#include "fssdp/comm/mpi/mpi_wait.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp::detail {

/// One communicator of a rank, between all ranks of a world or some. All communicators share a
/// monitor and its lock; the monitor uses the ranks of the world.
class mpi_context {
  using message = mpi_batch::message;

 public:
  /// @param own the MPI communicator of a duplicate or group; empty for the first one, which the
  ///        monitor has
  /// @param number of the communicator: the same on all ranks; 0 for the first one
  mpi_context(std::shared_ptr<mpi_monitor> monitor, mpi_handle own, int number)
      : monitor_{std::move(monitor)},
        own_{std::move(own)},
        group_{group_of(*monitor_, own_.comm() != MPI_COMM_NULL ? own_.comm() : monitor_->first())},
        number_{number},
        batch_{group_.me, group_.ranks, parts_between(*monitor_, group_.ranks),
               monitor_->most_tag(), monitor_->lending()} {}
  mpi_context(mpi_context const&) = delete;
  mpi_context& operator=(mpi_context const&) = delete;
  ~mpi_context() {
    auto const lock = monitor_->lock();
    if (monitor_->has_failed()) {
      own_.abandon();
      if (requests_ != nullptr && requests_->any_active()) {
        new auto{std::move(batch_)};  // MPI may still access the messages: they are leaked
        new auto{std::move(repeats_)};
      }
    } else {
      if (mpi_is_running()) repeats_.free();
      own_.close();
    }
  }

  [[nodiscard]] std::shared_ptr<mpi_monitor> const& monitor() const { return monitor_; }
  [[nodiscard]] mpi_group const& group() const { return group_; }
  /// The number of the next duplicate or group that is made from this communicator, derived from
  /// the numbers of its ancestors, so that ranks in different groups cannot number differently.
  [[nodiscard]] int next_child(int color) {
    auto hash = std::uint64_t{0};
    for (auto const part : {number_, ++children_, color})
      hash = (hash ^ static_cast<std::uint32_t>(part)) * 0x9e3779b97f4a7c15U ^ (hash >> 29U);
    return static_cast<int>(hash >> 33U);
  }

  /// As documented in communicator.hpp.
  template <class Post>
  void exchange(Post&& post) {
    begin();
    transact(
        [&] {
          auto batch = receiving{{batch_}};
          post(batch);
        },
        [](std::size_t, std::span<std::byte const>, gate&) {}, no_visit{});
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    begin();
    transact(
        [&] {
          auto batch = lending{{batch_}};
          post(batch);
          lent_.resize(batch_.in().size());
        },
        [&](std::size_t i, std::span<std::byte const> bytes, gate&) { lent_[i] = bytes; },
        [&] { visit(std::span<std::span<std::byte const> const>{lent_}); });
  }
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    begin();
    transact(
        [&] {
          auto batch = forwarding{{{{batch_}}}};
          post(batch);
        },
        arrived, no_visit{});
  }

 private:
  struct sending {
    mpi_batch& batch;
    void send(std::span<std::byte const> bytes, rank_id to) { batch.send(bytes, to, false); }
    void label(batch_label const& value) { batch.label(value); }
  };
  struct receiving : sending {
    void recv(std::span<std::byte> bytes, rank_id from) { this->batch.recv(bytes, from); }
  };
  struct lending : sending {
    void borrow(std::size_t bytes, rank_id from) { this->batch.borrow(bytes, from); }
  };
  struct forwarding : receiving {
    void hold(std::span<std::byte const> bytes, rank_id to) { this->batch.send(bytes, to, true); }
    void borrow(std::size_t bytes, rank_id from) { this->batch.borrow(bytes, from); }
  };
  /// For an exchange in which messages are read as they arrive.
  struct no_visit {
    void operator()() const {}
  };
  /// Releases deferred sends.
  struct gate {
    mpi_context& context;
    void release(std::size_t number) {
      auto const lock = context.monitor_->lock();
      auto const out = context.batch_.out();
      require(number < out.size(), "forward: message ", number, " is released; expected one of ",
              out.size());
      require(out[number].held, "forward: message ", number,
              " is released; expected a deferred send");
      context.batch_.let_go(out[number]);
      context.start(out[number]);
    }
  };

  [[nodiscard]] static mpi_group group_of(mpi_monitor& monitor, MPI_Comm comm) {
    auto const lock = monitor.lock();
    auto me = 0;
    MPI_Comm_rank(comm, &me);
    return {comm, rank_id{me}, group_ranks{monitor.ranks_of(comm)}};
  }
  [[nodiscard]] static std::vector<std::size_t> parts_between(mpi_monitor const& monitor,
                                                              group_ranks const& ranks) {
    auto bytes = std::vector<std::size_t>{};
    for (auto const peer : first_n<rank_id>(ranks.size()))
      bytes.push_back(monitor.part_bytes(ranks.world_rank(peer)));
    return bytes;
  }
  [[nodiscard]] rank_id in_world(rank_id rank) const { return group_.ranks.world_rank(rank); }

  void begin() {
    monitor_->check_thread();
    auto const lock = monitor_->lock();
    monitor_->check();
    batch_.clear(++sequence_);
    requests_ = nullptr;
    ready_.clear();
  }

  /// Adds and transfers the messages, calls arrived for each that has arrived, and visit once, when
  /// all have arrived. If anything fails, notifies all others before the exception propagates.
  template <class Name, class Arrived, class Visit>
  void transact(Name name, Arrived&& arrived, Visit visit) {
    try {
      name();
      batch_.lay_out();
      auto lock = monitor_->lock();
      start();
      auto wait = mpi_wait{*monitor_, number_};
      auto visited = visit_if_all_is_there(visit, lock, wait);
      while (undelivered_ != 0 || in_use_ != 0) {
        if (undelivered_ == 0) check_held();
        if (requests_->test([&](std::size_t i, int code) { ended(batch_.parts()[i], code); })) {
          monitor_->note_poll();
          wait.renew();
          if (!ready_.empty()) {
            listen();  // a failed sender may have reused the memory of what has just arrived
            {
              auto const open = mpi_unlocked{lock};
              deliver(arrived);
            }
            wait.renew();
          }
          if (!visited) visited = visit_if_all_is_there(visit, lock, wait);
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
  void listen() {
    monitor_->listen_at_times();
    monitor_->check();
  }
  /// If all has arrived: calls visit, and returns borrowed memory. Own messages must have been sent
  /// before a visit, as MPI makes no progress during it; lent memory is read meanwhile. Returns
  /// whether visit was called.
  template <class Visit>
  bool visit_if_all_is_there(Visit& visit, mpi_monitor::lock_type& lock, mpi_wait& wait) {
    if (undelivered_ != 0) return false;
    if constexpr (!std::is_same_v<Visit, no_visit>) {
      if (sending_ != 0) return false;
      {
        auto const open = mpi_unlocked{lock};
        visit();
      }
      listen();  // a failed peer may have reused the memory that was visited
      wait.renew();
    }
    return_what_is_lent();
    return true;
  }

  /// Begins to receive headers, and to send headers and all messages that are not deferred.
  void start() {
    auto const parts = batch_.parts();
    requests_ = &repeats_.requests_of(parts, group_);
    undelivered_ = batch_.in().size();
    ready_.reserve(undelivered_);
    in_use_ = 0;
    sending_ = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto const kind = parts[i].kind;
      if (parts[i].ends_use()) ++in_use_;
      if (parts[i].is_sent()) ++sending_;
      if (kind == mpi_part_kind::header_out) monitor_->count_sent(in_world(parts[i].peer));
      if (kind == mpi_part_kind::header_in || kind == mpi_part_kind::header_out ||
          kind == mpi_part_kind::places_out || kind == mpi_part_kind::done_in)
        start_part(i);
    }
    for (auto const& m : batch_.out())
      if (!m.held) start(m);
  }
  void start(message const& of) {
    for (auto i = of.part; i < of.part + of.parts; ++i) start_part(i);
  }
  void start_part(std::size_t i) {
    auto const& part = batch_.parts()[i];
    if (!part.comes_in()) monitor_->look_at(in_world(part.peer));
    requests_->start(i, part, group_);
  }

  /// MPI has completed a part.
  void ended(mpi_part const& part, int code) {
    switch (part.kind) {
      case mpi_part_kind::header_in:
        mpi_require(code, group_, part.peer, "exchange: receiving a header");
        accept(part.peer);
        break;
      case mpi_part_kind::places_in:
        mpi_require(code, group_, part.peer, "exchange: receiving places");
        batch_.take_places(part.peer);
        start_messages_from(part.peer);
        break;
      case mpi_part_kind::message_in:
        mpi_require(code, group_, part.peer, "exchange: receiving");
        if (--batch_.in()[part.message].missing == 0) ready_.push_back(part.message);
        break;
      default:
        mpi_require(code, group_, part.peer, "exchange: sending");
        if (part.is_sent()) --sending_;
        --batch_.of(part.peer).unsent_parts;
        --in_use_;
    }
  }
  /// A peer's header has arrived: its messages are received if they are as expected. Not before, as
  /// MPICH does not return an error for a message that does not fit.
  void accept(rank_id from) {
    monitor_->count_received(in_world(from));
    auto& peer = batch_.take_header(from);
    auto const difference = peer.wants.difference(peer.comes);
    if (!difference.empty()) throw disagreement(group_.ranks, group_.me, from, difference);
    peer.accepted = true;
    if (peer.comes.lent == 0)
      start_messages_from(from);
    else
      start_part(peer.places_in);
  }
  void start_messages_from(rank_id peer) {
    auto const in = batch_.in();
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].peer != peer) continue;
      if (!batch_.take_packed(in[i])) start(in[i]);
      if (in[i].missing == 0) ready_.push_back(i);
    }
  }
  template <class Arrived>
  void deliver(Arrived& arrived) {
    auto let_go = gate{*this};
    for (auto const i : ready_) {
      auto& m = batch_.in()[i];
      if (m.lent != nullptr && !m.borrowed) read(m);
      m.delivered = true;
      --undelivered_;
      --batch_.of(m.peer).undelivered;
      arrived(i, m.content(), let_go);
    }
    ready_.clear();
  }
  /// Copies a message that a peer lends, without the lock. If the peer has failed, it may have
  /// reused the memory meanwhile.
  void read(message const& m) {
    copy_bytes({m.data, m.bytes}, {m.lent, m.bytes}, batch_.bytes_in());
    auto const lock = monitor_->lock();
    listen();
  }
  /// Tells peers whose memory this rank has read that it has finished.
  void return_what_is_lent() {
    for (auto const rank : first_n<rank_id>(group_.ranks.size())) {
      auto& peer = batch_.of(rank);
      if (peer.comes.lent == 0) continue;
      start_part(peer.done_out);
      ++peer.unsent_parts;
      ++in_use_;
    }
  }

  void check_held() const {
    require(batch_.held() == 0, "forward: ", batch_.held(),
            " deferred sends are left when all messages have arrived; expected all to be "
            "released");
  }
  /// @throws peer_failed if a rank has failed, or a rank that this one waits for has left;
  ///         deadline_exceeded
  void check_peers(mpi_wait& wait) {
    monitor_->check();
    auto const peer = batch_.awaited();
    auto const awaits = [&](rank_id whom) {
      return text(group_.ranks.name(group_.me), " awaits ", group_.ranks.name(whom),
                  " in exchange ", batch_.sequence(), ", round ", batch_.label().round, " of plan ",
                  hexadecimal{batch_.label().plan});
    };
    if (monitor_->any_has_left()) {
      for (auto const other : first_n<rank_id>(group_.ranks.size())) {
        auto const& of = batch_.of(other);
        auto const gone = in_world(other);
        if ((of.undelivered == 0 || of.accepted || !monitor_->is_silent(gone)) &&
            (of.unsent_parts == 0 || !monitor_->is_deaf(gone)))
          continue;
        auto const what = text("rank ", gone, " has left the world: ", awaits(other));
        monitor_->fail(gone, what);
        throw peer_failed{gone, what};
      }
    }
    if (auto const missing = wait.missing(in_world(peer))) {
      auto const what = no_sign(*missing, monitor_->options().deadline, awaits(peer));
      monitor_->fail(*missing, what);
      throw deadline_exceeded{*missing, what};
    }
  }

  /// Notifies the others, cancels the receives of this rank, and waits a little until its memory is
  /// no longer used.
  void give_up(std::exception_ptr const& thrown) {
    auto lock = monitor_->lock();
    monitor_->fail(thrown);
    if (requests_ == nullptr) return;
    requests_->cancel(batch_.parts());
    auto pace = wait_pace{};
    auto const until = std::chrono::steady_clock::now() + mpi_monitor::memory_stays;
    while (requests_->any_active() && std::chrono::steady_clock::now() < until)
      if (!requests_->test([](std::size_t, int) {})) {
        lock.unlock();
        pace.rest();
        lock.lock();
      }
  }

  std::shared_ptr<mpi_monitor> monitor_;
  mpi_handle own_;
  mpi_group group_;
  int number_;
  int children_ = 0;
  std::uint64_t sequence_ = 0;
  mpi_batch batch_;
  mpi_repeats repeats_;
  mpi_requests* requests_ = nullptr;              // of this batch
  std::size_t undelivered_ = 0;                   // messages
  std::size_t in_use_ = 0;                        // parts that must end before memory is free
  std::size_t sending_ = 0;                       // of those: sent by this rank
  std::vector<std::size_t> ready_;                // messages that have arrived
  std::vector<std::span<std::byte const>> lent_;  // [messages], to be visited
};

}  // namespace fssdp::detail
