// SPDX-License-Identifier: Apache-2.0
/// The concept of a communicator: all that a host framework has to provide, and what it may add.
/// The README of this folder has it all on one page.
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

/// One ordered channel between `size()` ranks: all ranks make the same collective calls in the same
/// order, at most one at a time.
///
/// `exchange(post)` calls `post(batch)` once, with an exchange_batch, and moves what it names. It
/// returns when all of it has arrived and no peer reads the memory sent any more. A rank that names
/// no message calls it all the same. Errors are exceptions.
///
/// That is all, for one whose work is done in the call and whose memory is the host's. Another says
/// so: its `memory_space` is device_memory; if its calls return before their work is done, it names
/// its `stream_type` and has submit(work) and synchronize() besides (as queued_communicator), and
/// `exchange` enqueues.
///
/// Extras are found by name. One of another signature, or a part of a group, does not compile: the
/// compiler then names what is expected (detail::offers_whole_extras).
template <class Comm>
concept communicator = requires(Comm& comm, Comm const& view, detail::any_post post) {
  { view.rank() } -> std::same_as<rank_id>;
  { view.size() } -> std::same_as<int>;
  comm.exchange(post);
}
&&detail::offers_whole_extras<Comm>;

/// Optional extra: one-sided reading. In `lend(post, visit)` a batch has `send` and, in place of
/// `recv`, `borrow(bytes, from)`; `visit` is called once, gets the borrowed memory in the order of
/// the borrow calls, none if there were none, and may read it in place until it returns. Saves the
/// copy where the bytes are only summed.
template <class Comm>
concept lending_communicator = communicator<Comm> && detail::lends<Comm>;

/// Optional extra: forwarding. In `forward(post, arrived)` a batch has send, recv, borrow, and
/// `hold(bytes, to)` for a message whose content is not there yet. As soon as the n-th message that
/// is wanted (recv or borrow, counted from 0) is there, `arrived(n, bytes, gate)` is called, one at
/// a time and in any order; it may call `gate.release(m)`, which sends the m-th of all messages
/// that go out (send or hold), once. Nothing is awaited that is not needed: a piece is passed on
/// while others are still to come. The bytes of a borrow may be read in later calls of `arrived` as
/// well; when all has arrived, all held messages must have been released.
template <class Comm>
concept forwarding_communicator = communicator<Comm> && detail::forwards<Comm>;

/// Optional extra of a communicator without labels on the wire: before the messages of a plan,
/// `agree(hash)` checks that all ranks have come with the same one, and throws ranks_disagree if
/// not. It may wait for the other ranks, but not for a plan that it has agreed on lately: then
/// nothing is exchanged.
template <class Comm>
concept agreeing_communicator = communicator<Comm> && detail::agrees<Comm>;

/// Optional extra of such a communicator: the check goes on while the caller does.
/// `announce(plans)` begins it for a list of hashes, in one exchange, and returns; all ranks
/// announce at the same place among their calls, also where they know the plans already.
/// `has_agreed(hash)` says whether `agree(hash)` would return at once; it never waits. Where lists
/// differ, every rank gets ranks_disagree from its next call after it has seen that, and none sends
/// anything of a plan that was new to it.
template <class Comm>
concept announcing_communicator = agreeing_communicator<Comm> && detail::announces<Comm>;

/// Optional extra: `connect(peers)`, a span of rank_id, connects this rank with peers, which all
/// name it, before the first message (warm_up).
template <class Comm>
concept connecting_communicator = communicator<Comm> && detail::connects<Comm>;

/// Optional extra: `duplicate()` returns another communicator between the same ranks, for another
/// thread or stream. Every rank makes the same duplicates in the same order.
template <class Comm>
concept duplicable_communicator = communicator<Comm> && detail::duplicates<Comm>;

/// Optional extra: `split(color, key)` makes groups, as MPI_Comm_split does, and returns a
/// std::optional. Every rank calls it, in the same order; those that pass the same color, 0 or
/// more, get a communicator between them, in the order of their keys (of equal keys, of their
/// ranks). A rank that belongs to no group passes `no_color` and gets none.
template <class Comm>
concept splittable_communicator = communicator<Comm> && detail::splits<Comm>;

/// Optional extra: `without(lost)`, a span of rank_id, returns a communicator between the ranks
/// that are left when some are lost, renumbered in the same order. All that are left call it,
/// with the same ranks. The communicator may have failed before.
template <class Comm>
concept shrinkable_communicator = communicator<Comm> && detail::shrinks<Comm>;

/// Optional extra of such a communicator: `find_lost()` agrees with all ranks that call it, too, on
/// who is lost, and returns them, ascending, none if all have come. It may be called when something
/// has failed, and never waits longer than the deadline.
template <class Comm>
concept survivable_communicator = shrinkable_communicator<Comm> && detail::finds_lost<Comm>;

/// Optional extra, where memory is a device's: `gather_values(mine, all)` is an all-gather of bytes
/// of the host, mine [n] -> all [size, n], which are there when it returns.
template <class Comm>
concept gathering_communicator = communicator<Comm> && detail::gathers_values<Comm>;

/// Takes work: `submit(work)` calls work(comm), now or later, in the order of its stream, with this
/// communicator or with the one inside it; `synchronize()` waits for all of it, and throws what it
/// threw.
template <class Comm>
concept submitting_communicator =
    communicator<Comm> && detail::takes_work<Comm> && detail::can_be_awaited<Comm>;

/// What a communicator has to offer whose memory is a device's. All of it is enqueued on its stream
/// and done in order: `sum` and `convert` what they say, `copy(to, from)` bytes of one device;
/// `allocate(bytes)` gives memory that what is enqueued next may use, until it is given to `free`.
template <class Comm>
concept device_communicator = communicator<Comm> &&
    std::same_as<memory_space_of<Comm>, device_memory> && detail::works_on_device<Comm>;

/// Optional extra of such a communicator: codecs on its device. `encode` makes a payload of
/// elements (device_encoding) or of a sum (device_sum_encoding); `sum` then takes payloads among
/// its operands (device_sums::kind::payload), and decodes them. That is about the library's
/// codecs; those of users have no kernels.
template <class Comm>
concept coding_communicator = device_communicator<Comm> && detail::encodes_on_device<Comm>;

/// What a communicator has to offer whose caller computes in another stream of a device
/// (`on_side_stream` makes one). What is submitted runs after all that the caller has enqueued
/// there. `position()` counts it, from 1; what the caller enqueues after `await(position)` runs
/// when the communicator has come that far; `clear` enqueues zeros there; `prepare(work)` runs
/// work(comm) on the host, at once: it touches nothing of the caller's.
template <class Comm>
concept side_stream_communicator = communicator<Comm> &&
    std::same_as<memory_space_of<Comm>, device_memory> && detail::is_on_side_stream<Comm>;

/// Checks that all ranks have come with the same plan, where the communicator has a way of its own.
/// @cost one exchange of a hash, none for a plan that it has agreed on lately; nothing where labels
///       go with the messages
/// @throws ranks_disagree
template <communicator Comm>
void agree(Comm& comm, std::uint64_t plan) {
  if constexpr (agreeing_communicator<Comm>) comm.agree(plan);
}

/// Begins to check a list of plans, all of which are about to be gone by; nothing where each plan
/// is checked by itself.
/// @cost one exchange of hashes, which nobody waits for here
template <communicator Comm>
void announce(Comm& comm, std::span<std::uint64_t const> plans) {
  if constexpr (announcing_communicator<Comm>) comm.announce(plans);
}

/// Runs `work(comm)` in the order of the communicator's stream: at once in the caller, unless the
/// communicator has a queue to put it in (on_stream). All collectives go through here.
/// @cost that of the work
template <communicator Comm, class Work>
void submit(Comm& comm, Work&& work) {
  if constexpr (submitting_communicator<Comm>)
    comm.submit(std::forward<Work>(work));
  else
    work(comm);
}

/// Waits for everything submitted so far; at once if the stream is inline.
/// @cost no message of its own
/// @throws what the submitted work threw.
template <communicator Comm>
void synchronize(Comm& comm) {
  if constexpr (submitting_communicator<Comm>) comm.synchronize();
}

}  // namespace fssdp
