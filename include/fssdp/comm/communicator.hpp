// SPDX-License-Identifier: Apache-2.0
/// The concept of a communicator: what a host framework must provide, and what it may provide. The
/// README of this folder is a summary.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/communicator_extras.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/stream/stream.hpp"

namespace fssdp {

/// An ordered channel between `size()` ranks: all ranks make the same collective calls in the same
/// order, at most one at a time.
///
/// `exchange(post)` calls `post(batch)` once, with an exchange_batch, and transfers the messages
/// that it adds. It returns when all messages for this rank have arrived and no peer reads the sent
/// memory any more. A rank without messages calls it, too. Errors are exceptions.
///
/// That is all that is needed if the work is done within the call and memory is host memory. For
/// device memory, `memory_space` is device_memory. If calls return before their work is done, the
/// communicator has a `stream_type`, and submit(work) and synchronize() (as queued_communicator
/// has); `exchange` then enqueues.
///
/// Optional functions are found by name. A function with another signature, or an incomplete group
/// of functions, is a compile error that names what is expected (detail::offers_whole_extras).
template <class Comm>
concept communicator = requires(Comm& comm, Comm const& view, detail::any_post post) {
  { view.rank() } -> std::same_as<rank_id>;
  { view.size() } -> std::same_as<int>;
  comm.exchange(post);
}
&&detail::offers_whole_extras<Comm>;

/// Optional: zero-copy reads. In `lend(post, visit)` a batch has `send` and, instead of `recv`,
/// `borrow(bytes, from)`. `visit` is called once with the borrowed memory in the order of the
/// borrow calls, also if there are none, and may read it in place until it returns. It saves a copy
/// where bytes are only summed.
template <class Comm>
concept lending_communicator = communicator<Comm> && detail::lends<Comm>;

/// Optional: forwarding. In `forward(post, arrived)` a batch has send, recv, borrow, and
/// `hold(bytes, to)`, a deferred send whose contents are not known yet. When the n-th received
/// message (recv or borrow, counted from 0) is complete, `arrived(n, bytes, gate)` is called, one
/// call at a time, in any order of n. It may call `gate.release(m)`, which sends the m-th sent
/// message (send or hold), once. So a piece is passed on while others are still being received. The
/// bytes of a borrow may also be read in later calls of `arrived`. When all messages have arrived,
/// all deferred sends must have been released.
template <class Comm>
concept forwarding_communicator = communicator<Comm> && detail::forwards<Comm>;

/// Optional, for communicators whose messages have no labels: before the messages of a plan,
/// `agree(hash)` checks that all ranks have the same plan, and throws ranks_disagree if not. It may
/// wait for the other ranks, but not for a plan that was checked recently: then nothing is
/// exchanged.
template <class Comm>
concept agreeing_communicator = communicator<Comm> && detail::agrees<Comm>;

/// Optional, for such communicators: an asynchronous check. `announce(plans)` begins to check a
/// list of hashes, in one exchange, and returns. All ranks announce at the same point of their
/// calls, also if they know the plans already. `has_agreed(hash)` says whether `agree(hash)` would
/// return at once; it never waits. If lists differ, every rank gets ranks_disagree from its next
/// call after it has detected that, and no rank sends anything by a plan that was new to it.
template <class Comm>
concept announcing_communicator = agreeing_communicator<Comm> && detail::announces<Comm>;

/// Optional: `connect(peers)`, a span of rank_id, connects this rank with its peers, each of which
/// calls it with this rank, before the first message (warm_up).
template <class Comm>
concept connecting_communicator = communicator<Comm> && detail::connects<Comm>;

/// Optional: `duplicate()` returns another communicator between the same ranks, for another thread
/// or stream. Every rank makes the same duplicates in the same order.
template <class Comm>
concept duplicable_communicator = communicator<Comm> && detail::duplicates<Comm>;

/// Optional: `split(color, key)` divides the ranks into groups, as MPI_Comm_split does, and returns
/// a std::optional. All ranks call it, in the same order. Those with the same color, 0 or more, get
/// a communicator between them, ordered by key, then by rank. A rank in no group passes `no_color`
/// and gets an empty result.
template <class Comm>
concept splittable_communicator = communicator<Comm> && detail::splits<Comm>;

/// Optional: `without(lost)`, a span of rank_id, returns a communicator between the remaining ranks
/// when some are lost, renumbered in the same order. All remaining ranks call it, with the same
/// list. The communicator may have failed before.
template <class Comm>
concept shrinkable_communicator = communicator<Comm> && detail::shrinks<Comm>;

/// Optional, for such communicators: `find_lost()` agrees with all other ranks that call it on the
/// lost ranks, and returns them, ascending; an empty list if none is lost. It may be called after a
/// failure, and never waits longer than the deadline.
template <class Comm>
concept survivable_communicator = shrinkable_communicator<Comm> && detail::finds_lost<Comm>;

/// Optional, for device memory: `gather_values(mine, all)` is an all-gather of host bytes, mine [n]
/// -> all [size, n], complete when it returns.
template <class Comm>
concept gathering_communicator = communicator<Comm> && detail::gathers_values<Comm>;

/// A communicator that takes work: `submit(work)` calls work(comm), now or later, in stream order,
/// with this communicator or the one inside it. `synchronize()` waits for all work, and throws what
/// it threw.
template <class Comm>
concept submitting_communicator =
    communicator<Comm> && detail::takes_work<Comm> && detail::can_be_awaited<Comm>;

/// What a communicator of device memory must provide. All of it is enqueued on its stream in order:
/// `sum` and `convert` run kernels, `copy(to, from)` copies bytes on one device. `allocate(bytes)`
/// returns memory for work that is enqueued after it, until `free`.
template <class Comm>
concept device_communicator = communicator<Comm> &&
    std::same_as<memory_space_of<Comm>, device_memory> && detail::works_on_device<Comm>;

/// Optional, for such communicators: codecs on the device. `encode` makes a payload of elements
/// (device_encoding) or of a sum (device_sum_encoding); `sum` accepts payloads among its operands
/// (device_sums::kind::payload), and decodes them. Only for the library's codecs, as other codecs
/// have no kernels.
template <class Comm>
concept coding_communicator = device_communicator<Comm> && detail::encodes_on_device<Comm>;

/// What a communicator must provide whose caller computes on another stream of the device
/// (`on_side_stream` makes one). Submitted work runs after all that the caller has enqueued before.
/// `position()` is the number of submitted works. After `await(position)`, the caller's stream
/// waits until that work has run. `clear` enqueues zeros on the caller's stream. `prepare(work)`
/// runs work(comm) on the host at once; it must not use memory of the caller.
template <class Comm>
concept side_stream_communicator = communicator<Comm> &&
    std::same_as<memory_space_of<Comm>, device_memory> && detail::is_on_side_stream<Comm>;

/// Checks that all ranks have the same plan, if the communicator has `agree`.
/// @cost one exchange of a hash, or none for a plan that was checked recently; nothing if messages
///       have labels
/// @throws ranks_disagree
template <communicator Comm>
void agree(Comm& comm, std::uint64_t plan) {
  if constexpr (agreeing_communicator<Comm>) comm.agree(plan);
}

/// Begins to check a list of plans that will be used next; does nothing if the communicator has no
/// `announce`.
/// @cost one exchange of hashes, asynchronous
template <communicator Comm>
void announce(Comm& comm, std::span<std::uint64_t const> plans) {
  if constexpr (announcing_communicator<Comm>) comm.announce(plans);
}

/// Runs `work(comm)` in the order of the communicator's stream: at once in the caller, unless the
/// communicator is bound to a stream (on_stream). All collectives use it.
/// @cost that of the work
template <communicator Comm, class Work>
void submit(Comm& comm, Work&& work) {
  if constexpr (submitting_communicator<Comm>)
    comm.submit(std::forward<Work>(work));
  else
    work(comm);
}

/// Waits for all submitted work; returns at once if the stream is inline.
/// @cost no messages of its own
/// @throws what the submitted work has thrown
template <communicator Comm>
void synchronize(Comm& comm) {
  if constexpr (submitting_communicator<Comm>) comm.synchronize();
}

}  // namespace fssdp
