// SPDX-License-Identifier: Apache-2.0
/// The concept of a communicator: all that a host framework has to provide.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/core/index.hpp"
#include "fssdp/element/device_conversion.hpp"
#include "fssdp/element/device_sum.hpp"
#include "fssdp/stream/stream.hpp"

namespace fssdp {

/// What a communicator exchanges at once. Messages between the same two ranks match in the order in
/// which both ends name them; sizes must agree.
template <class Batch>
concept exchange_batch = requires(Batch& batch, std::span<std::byte const> out,
                                  std::span<std::byte> in, rank_id peer) {
  batch.send(out, peer);
  batch.recv(in, peer);
};

namespace detail {

/// Stands for any `post`: a function that names the messages of a batch.
struct any_post {
  template <exchange_batch Batch>
  void operator()(Batch&) const {}
};
/// The same where a batch has something else in place of `recv`.
struct any_other_post {
  template <class Batch>
  void operator()(Batch&) const {}
};
/// Stands for any `visit`: a function that looks at borrowed memory.
struct any_visit {
  void operator()(std::span<std::span<std::byte const> const>) const {}
};
/// Stands for any work of a communicator.
struct any_work {
  template <class Comm>
  void operator()(Comm&) const {}
};

/// What may own the memory of its tensors, unlike views and lists of them.
template <class Buffer>
concept has_tensors = requires(Buffer& buffer) {
  buffer.tensors();
};

template <class Comm>
concept names_its_stream = requires {
  typename Comm::stream_type;
};
template <class Comm>
concept names_its_memory = requires {
  typename Comm::memory_space;
};
template <class Comm>
concept takes_work = requires(Comm& comm, any_work work) {
  comm.submit(work);
};
template <class Comm>
concept can_be_awaited = requires(Comm& comm) {
  comm.synchronize();
};

template <class Comm>
struct stream_of {
  using type = inline_stream;
};
template <names_its_stream Comm>
struct stream_of<Comm> {
  using type = typename Comm::stream_type;
};
template <class Comm>
struct memory_of {
  using type = host_memory;
};
template <names_its_memory Comm>
struct memory_of<Comm> {
  using type = typename Comm::memory_space;
};

}  // namespace detail

/// What a communicator's work is enqueued on: its stream_type, or inline_stream if it has none.
template <class Comm>
using stream_type_of = typename detail::stream_of<Comm>::type;

/// Where the memory is that a communicator moves: its memory_space, or host_memory if it has none.
template <class Comm>
using memory_space_of = typename detail::memory_of<Comm>::type;

/// Whether a communicator's calls return before their work is done.
template <class Comm>
concept stream_bound = !std::same_as<stream_type_of<Comm>, inline_stream>;

/// Whether the memory of a buffer that is given as `Buffer&&` is still there when the work of a
/// communicator runs. That of a stream-bound one runs after the call has returned: a temporary
/// expert_buffer, or whatever else may own the memory, is gone then. Views of memory are copied by
/// the call, and may be temporaries.
template <class Buffer, class Comm>
concept outlives_the_call =
    !stream_bound<Comm> || std::is_lvalue_reference_v<Buffer> || !detail::has_tensors<Buffer>;

namespace detail {

/// Who is bound to a stream, or takes work, says to which stream, takes work and can be awaited.
template <class Comm>
concept inline_or_complete = !(stream_bound<Comm> || takes_work<Comm>) ||
                             (names_its_stream<Comm> && takes_work<Comm> && can_be_awaited<Comm>);

}  // namespace detail

/// One ordered lane between `size()` ranks: all ranks make the same collective calls in the same
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
template <class Comm>
concept communicator = requires(Comm& comm, Comm const& view, detail::any_post post) {
  { view.rank() } -> std::same_as<rank_id>;
  { view.size() } -> std::same_as<int>;
  comm.exchange(post);
}
&&detail::inline_or_complete<Comm>;

/// Optional extra: one-sided reading. In `lend(post, visit)` a batch has `send` and, in place of
/// `recv`, `borrow(bytes, from)`; `visit` is called once, gets the borrowed memory in the order of
/// the borrow calls, none if there were none, and may read it in place until it returns. Saves the
/// copy where the bytes are only summed.
template <class Comm>
concept lending_communicator = communicator<Comm> &&
    requires(Comm& comm, detail::any_other_post post, detail::any_visit visit) {
  comm.lend(post, visit);
};

namespace detail {

/// Stands for any `arrived`: a function that is told of messages as they come in.
struct any_arrived {
  template <class Gate>
  void operator()(std::size_t, std::span<std::byte const>, Gate&) const {}
};

}  // namespace detail

/// Optional extra: forwarding. In `forward(post, arrived)` a batch has send, recv, borrow, and
/// `hold(bytes, to)` for a message whose content is not there yet. As soon as the n-th message that
/// is wanted (recv or borrow, counted from 0) is there, `arrived(n, bytes, gate)` is called, one at
/// a time and in any order; it may call `gate.release(m)`, which sends the m-th of all messages
/// that go out (send or hold), once. Nothing is awaited that is not needed: a piece is passed on
/// while others are still to come. The bytes of a borrow may be read in later calls of `arrived` as
/// well; when all has arrived, all has to be let go.
template <class Comm>
concept forwarding_communicator = communicator<Comm> &&
    requires(Comm& comm, detail::any_other_post post, detail::any_arrived arrived) {
  comm.forward(post, arrived);
};

/// What a communicator has to offer whose memory is a device's. All of it is enqueued on its stream
/// and done in order: `sum` and `convert` what they say, `copy(to, from)` bytes of one device;
/// `allocate(bytes)` gives memory that what is enqueued next may use, until it is given to `free`.
template <class Comm>
concept device_communicator = communicator<Comm> &&
    std::same_as<memory_space_of<Comm>, device_memory> &&
    requires(Comm& comm, device_sum const& sum, device_conversion const& conversion,
             std::span<std::byte> to, std::span<std::byte const> from) {
  comm.sum(sum);
  comm.convert(conversion);
  comm.copy(to, from);
  { comm.allocate(std::size_t{}) } -> std::same_as<std::span<std::byte>>;
  comm.free(to);
};

/// What a lane has to offer whose caller computes in a stream of a device beside it (`beside` makes
/// one). What is submitted runs behind all that the caller has enqueued there. `position()` counts
/// it, from 1; what the caller enqueues behind `await(position)` runs when the lane has come as far;
/// `clear` enqueues zeros there; `prepare(work)` runs work(comm) on the host, at once: it touches
/// nothing of the caller's.
template <class Lane>
concept side_lane = communicator<Lane> && std::same_as<memory_space_of<Lane>, device_memory> &&
    requires(Lane& lane, Lane const& view, detail::any_work work, std::span<std::byte> memory) {
  lane.prepare(work);
  { view.position() } -> std::same_as<std::uint64_t>;
  lane.await(std::uint64_t{});
  lane.clear(memory);
};

/// Optional extra of a communicator without labels on the wire: before the messages of a plan,
/// `agree(hash)` makes sure that all ranks have come with the same one. Ranks that know it already
/// do not talk.
/// @throws ranks_disagree
template <class Comm>
void agree(Comm& comm, std::uint64_t plan) {
  if constexpr (requires { comm.agree(plan); }) comm.agree(plan);
}

/// Optional extra of a batch: a label that both ends compare, so that ranks that are in different
/// collectives find out.
struct batch_label {
  std::uint64_t plan = 0;  ///< hash of the plan, and of the codec if there is one
  /// Of a gather from 0; those of the reduction that reads it backwards follow; then the whole
  /// gather and the whole reduction, where messages are passed on as they come in.
  int round = 0;
  friend bool operator==(batch_label const&, batch_label const&) = default;
};

template <class Batch>
void set_label(Batch& batch, batch_label const& label) {
  if constexpr (requires { batch.label(label); }) batch.label(label);
}

/// Runs `work(comm)` in the order of the communicator's stream: at once in the caller, unless the
/// communicator has a queue to put it in (on.hpp). All collectives go through here.
template <communicator Comm, class Work>
void submit(Comm& comm, Work work) {
  if constexpr (detail::takes_work<Comm>)
    comm.submit(std::move(work));
  else
    work(comm);
}

/// Waits for everything submitted so far; at once if the stream is inline.
/// @throws what the submitted work threw.
template <communicator Comm>
void synchronize(Comm& comm) {
  if constexpr (detail::can_be_awaited<Comm>) comm.synchronize();
}

}  // namespace fssdp
