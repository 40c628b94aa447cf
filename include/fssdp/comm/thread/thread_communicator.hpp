// SPDX-License-Identifier: Apache-2.0
/// A rank that is a thread of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/function_ref.hpp"

namespace fssdp {

namespace detail {

class thread_context;
class thread_rank;

/// Ranks that have met (thread_communicator::meet), as passed to the rank that serves them.
struct thread_meeting {
  std::span<rank_id const> ranks;
  function_ref<void(rank_id, std::exception_ptr)> refuse;  ///< makes the call of a rank throw
};

}  // namespace detail

class thread_world;

/// A rank of a thread_world (thread.hpp). The receiver copies directly from the sender's memory:
/// every byte is copied once, or not at all if it is borrowed. Ranks that wait help with copies of
/// 256 KiB or more.
///
/// @cost per exchange: no allocation if there has been a batch as large before; a wait yields the
///       core up to 20 times, then sleeps
class thread_communicator {
 public:
  using stream_type = inline_stream;
  using memory_space = host_memory;

  thread_communicator(thread_communicator&&) noexcept;
  thread_communicator& operator=(thread_communicator&&) noexcept;
  ~thread_communicator();

  [[nodiscard]] rank_id rank() const;
  [[nodiscard]] int size() const;
  /// The bytes that were copied to this rank so far.
  [[nodiscard]] std::uint64_t copied_bytes() const;

  /// @throws ranks_disagree, peer_failed, deadline_exceeded; what `post` throws, before anything is
  ///         sent; an earlier error of this rank, here or in a duplicate
  template <class Post>
  void exchange(Post&& post) {
    begin();
    auto batch = receiving{{*this}};
    post(batch);
    exchange_named();
  }

  /// Optional: reads peers' memory in place (lending_communicator). A rank whose memory is being
  /// read does not leave before the reader has finished or left; only this wait has no deadline.
  /// @throws as exchange, and what `visit` throws
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    begin();
    auto batch = borrowing{{*this}};
    post(batch);
    lend_named(visit);
  }

  /// Optional: forwarding (forwarding_communicator). Borrowed memory may be read until all messages
  /// have arrived; about leaving, see lend.
  /// @throws as exchange; what `arrived` throws; argument_error if a deferred send is released
  ///         twice or never, or a message is released that is not deferred
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    begin();
    auto batch = forwarding{{{*this}}};
    post(batch);
    auto let_go = gate{*this};
    forward_named([&](std::size_t number, std::span<std::byte const> bytes) {
      arrived(number, bytes, let_go);
    });
  }

  /// Lets one thread work for all ranks that are connected by messages, directly or through others.
  /// When all have come, each calls prepare(borrowed) with the memory that it borrows, as in lend.
  /// Then the lowest rank calls serve(detail::thread_meeting const&), which must not throw, while
  /// the others wait. This is faster than separate work where that is short and contended, as for
  /// calls of a device driver.
  /// @cost as exchange, but the lock is taken once, or not at all if all come soon and each has the
  ///       same peers as at its last meeting. Waiting ranks yield the core more often if there are
  ///       as many cores as ranks
  /// @throws as exchange; what prepare throws: then no rank is served; the exception that serve
  ///         passes to refuse
  template <class Post, class Prepare, class Serve>
  void meet(Post&& post, Prepare&& prepare, Serve&& serve) {
    begin();
    auto batch = borrowing{{*this}};
    post(batch);
    meet_named(prepare, serve);
  }

  /// Another communicator between the same ranks. Every rank makes the same duplicates in the same
  /// order.
  [[nodiscard]] thread_communicator duplicate();

  /// Optional: the group of the ranks with the same color (splittable_communicator), ordered by
  /// key; empty for a rank with no_color. Every rank calls it, in the same order as other calls. If
  /// a rank of the world fails, in the group or not, all others get a peer_failed. Errors name
  /// ranks of the world.
  /// @cost an exchange of 8 bytes with each rank; some memory for each pair of ranks of the group,
  ///       until the world runs again
  /// @throws as exchange; argument_error if the color is negative and not no_color
  [[nodiscard]] std::optional<thread_communicator> split(int color, int key = 0);
  /// Optional: agrees with all other ranks that call it on the lost ranks
  /// (survivable_communicator): those that have left, and those that do not come within the
  /// deadline. All remaining ranks call it after a failure. All communicators of the world have
  /// failed then.
  /// @return ranks of this communicator, ascending; empty if all have come
  /// @cost waits for all ranks that have not left, at most until the deadline
  /// @throws peer_failed if this rank itself is lost: the others have stopped waiting
  [[nodiscard]] std::vector<rank_id> find_lost();
  /// Optional: a communicator between the remaining ranks when some are lost, or none
  /// (shrinkable_communicator), renumbered in the same order. All remaining ranks call it, with the
  /// same list; lost ranks may have ended, or come back: then they get an error. It has its own
  /// failure state, to which exceptions of lost ranks do not belong: the world does not throw these
  /// either. Errors name ranks of the world. This communicator stays as it is: failed, or usable.
  /// @cost some memory for each pair of ranks, until the world runs again; no exchange
  /// @throws argument_error if a rank does not exist or is this one; peer_failed if the others have
  ///         continued without this rank
  [[nodiscard]] thread_communicator without(std::span<rank_id const> lost);
  /// The rank of the world that a rank is; they differ in groups.
  /// @throws argument_error unless it is a rank of this communicator
  [[nodiscard]] rank_id world_rank(rank_id rank) const;

 private:
  friend thread_world;

  struct sending {
    thread_communicator& comm;
    void send(std::span<std::byte const> bytes, rank_id to) { comm.stage(bytes, to, false); }
    void label(batch_label const& value) { comm.label(value); }
  };
  struct receiving : sending {
    void recv(std::span<std::byte> bytes, rank_id from) {
      this->comm.want(from, bytes.size(), bytes.data());
    }
  };
  struct borrowing : sending {
    void borrow(std::size_t bytes, rank_id from) { this->comm.want(from, bytes, nullptr); }
  };
  struct forwarding : receiving {
    void borrow(std::size_t bytes, rank_id from) { this->comm.want(from, bytes, nullptr); }
    void hold(std::span<std::byte const> bytes, rank_id to) { this->comm.stage(bytes, to, true); }
  };
  /// Releases deferred sends.
  struct gate {
    thread_communicator& comm;
    void release(std::size_t number) { comm.release(number); }
  };

  thread_communicator(detail::thread_context& context, rank_id rank);

  void begin();
  void stage(std::span<std::byte const> bytes, rank_id to, bool held);
  void want(rank_id from, std::size_t bytes, std::byte* into);
  void label(batch_label const& value);
  void release(std::size_t number);
  void exchange_named();
  void lend_named(detail::function_ref<void(std::span<std::span<std::byte const> const>)> visit);
  void forward_named(detail::function_ref<void(std::size_t, std::span<std::byte const>)> arrived);
  void meet_named(detail::function_ref<void(std::span<std::span<std::byte const> const>)> prepare,
                  detail::function_ref<void(detail::thread_meeting const&)> serve);

  std::unique_ptr<detail::thread_rank> does_;
};

static_assert(lending_communicator<thread_communicator>);
static_assert(splittable_communicator<thread_communicator>);
static_assert(survivable_communicator<thread_communicator>);
static_assert(forwarding_communicator<thread_communicator>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/comm/thread/thread_communicator_inl.hpp"
#endif
