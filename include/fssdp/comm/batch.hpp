// SPDX-License-Identifier: Apache-2.0
/// The concepts of a batch: the object to which the caller of an exchange adds its messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/comm/offered_calls.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// The argument of post in `exchange(post)`. Messages between the same two ranks match in the order
/// in which both ends add them; their sizes must agree. The memory must not change until the
/// exchange has finished.
template <class Batch>
concept exchange_batch = requires(Batch& batch, std::span<std::byte const> out,
                                  std::span<std::byte> in, rank_id peer) {
  batch.send(out, peer);
  batch.recv(in, peer);
};

/// The argument of post in `lend(post, visit)`: `borrow(bytes, from)` asks for a message of that
/// many bytes that is read in place, in the memory of its sender.
template <class Batch>
concept lending_batch = requires(Batch& batch, std::span<std::byte const> out, std::size_t bytes,
                                 rank_id peer) {
  batch.send(out, peer);
  batch.borrow(bytes, peer);
};

/// The argument of post in `forward(post, arrived)`: `hold(bytes, to)` adds a deferred send, whose
/// contents are not known yet.
template <class Batch>
concept forwarding_batch = exchange_batch<Batch> && lending_batch<Batch> &&
    requires(Batch& batch, std::span<std::byte const> out, rank_id peer) {
  batch.hold(out, peer);
};

/// The release gate that arrived of `forward(post, arrived)` gets: `release(m)` sends the m-th
/// message, a deferred send.
template <class Gate>
concept release_gate = requires(Gate& gate, std::size_t message) {
  gate.release(message);
};

/// Says which collective a batch belongs to. Both ends compare labels, so that ranks in different
/// collectives are detected.
struct batch_label {
  std::uint64_t plan = 0;  ///< hash of the plan, and of the codec if there is one
  /// The rounds of a gather from 0; then those of its reduction; then the whole gather and the
  /// whole reduction, where they are one forwarding exchange.
  int round = 0;
  friend bool operator==(batch_label const&, batch_label const&) = default;
};

/// Optional for any batch: `label(batch_label)`, called at most once, before the messages.
template <class Batch>
concept labelled_batch = requires(Batch& batch, batch_label const& label) {
  batch.label(label);
};

namespace detail {

template <class Batch>
concept its_label_takes_a_batch_label = labelled_batch<Batch> || !offers_label<Batch>;

}  // namespace detail

/// Sets the label of a batch, if the batch has labels.
template <class Batch>
requires detail::its_label_takes_a_batch_label<Batch>
void set_label(Batch& batch, batch_label const& label) {
  if constexpr (labelled_batch<Batch>) batch.label(label);
}

}  // namespace fssdp
