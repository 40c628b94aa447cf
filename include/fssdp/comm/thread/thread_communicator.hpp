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

/// Ranks that have met (thread_communicator::meet), as the one that serves all of them sees them.
struct thread_meeting {
  std::span<rank_id const> ranks;
  function_ref<void(rank_id, std::exception_ptr)> refuse;  ///< has a rank throw
};

}  // namespace detail

class thread_world;

/// A rank of a thread_world (thread.hpp). The receiver copies straight out of the sender's memory:
/// every byte is copied once, or not at all when it is lent. Ranks that wait take a share of what
/// others copy, from 256 KiB on.
///
/// @cost per exchange: no allocation once the largest batch has been seen; a wait that is not over
///       when the core has been given up 20 times blocks
class thread_communicator {
 public:
  using stream_type = inline_stream;
  using memory_space = host_memory;

  thread_communicator(thread_communicator&&) noexcept;
  thread_communicator& operator=(thread_communicator&&) noexcept;
  ~thread_communicator();

  [[nodiscard]] rank_id rank() const;
  [[nodiscard]] int size() const;
  /// Bytes that have been copied to this rank so far.
  [[nodiscard]] std::uint64_t copied_bytes() const;

  /// @throws ranks_disagree, peer_failed, deadline_exceeded; what `post` throws, before anything
  ///         is sent; what an exchange of this rank has thrown before, here or in a duplicate
  template <class Post>
  void exchange(Post&& post) {
    begin();
    auto batch = receiving{{*this}};
    post(batch);
    exchange_named();
  }

  /// Optional extra: reads peers' memory in place (lending_communicator).
  /// A rank whose memory is being read does not leave before its reader has finished, or has left:
  /// that wait alone has no deadline.
  /// @throws as exchange, and what `visit` throws
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    begin();
    auto batch = borrowing{{*this}};
    post(batch);
    lend_named(visit);
  }

  /// Optional extra: passes messages on as they come in (forwarding_communicator).
  /// What is borrowed may be read until all has arrived; about leaving, see lend.
  /// @throws as exchange; what `arrived` throws; argument_error if a held message is let go twice
  ///         or never, or one that is not held
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

  /// Has one thread work for all ranks that messages connect, directly or through others. When all
  /// have come, each calls prepare(borrowed) with what it borrows, as lend does; when all have done
  /// so, the lowest calls serve(detail::thread_meeting const&), which must not throw, while the
  /// others wait. Where what they do is short and fought over, as with the driver of devices, that
  /// is faster than that each does its own.
  /// @cost as exchange, but that the lock is taken once, and that who waits gives up its core more
  ///       often if there are as many cores as ranks
  /// @throws as exchange; what prepare throws: then nobody is served; what it is refused with
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

  /// Optional extra: the group of the ranks that pass the same color (splittable_communicator), in
  /// the order of their keys; nothing for a rank that passes no_color. Every rank calls it, in the
  /// same order as other calls. When a rank of the world fails, whether it is in the group or not,
  /// all others get the peer_failed. Errors name ranks of the world.
  /// @cost an exchange of 8 bytes with each rank; some memory for each pair of ranks of the group,
  ///       until the world runs again
  /// @throws as exchange; argument_error if the color is negative and not no_color
  [[nodiscard]] std::optional<thread_communicator> split(int color, int key = 0);
  /// Optional extra: agrees with all ranks that call it, too, on who is lost
  /// (survivable_communicator): who has left, and who does not come within the deadline. Every rank
  /// calls it that is left when something has failed. All communicators of the world have failed
  /// then.
  /// @return ranks of this communicator, ascending; none if all have come
  /// @cost waits for all that have not left, at most as long as the deadline
  /// @throws peer_failed if this rank is lost itself: the others have not waited any longer
  [[nodiscard]] std::vector<rank_id> find_lost();
  /// Optional extra: another communicator between the ranks that are left when some are lost, or
  /// none (shrinkable_communicator), renumbered in the same order. Those that are left call it,
  /// with the same ranks; the lost ones may be gone, or come back: then they get an error. It has
  /// failures of its own, of which the world throws nothing that a lost rank has thrown. Errors go
  /// on naming ranks of the world. This one stays as it is: failed, or at work.
  /// @cost some memory for each pair of ranks, until the world runs again; no exchange
  /// @throws argument_error if one is not there or is this one; peer_failed if the others have gone
  ///         on without this rank
  [[nodiscard]] thread_communicator without(std::span<rank_id const> lost);
  /// The rank in the world of a rank here, which is another one in a group.
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
  /// Lets held messages go.
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
