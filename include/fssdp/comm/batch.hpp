// SPDX-License-Identifier: Apache-2.0
/// The concepts of a batch: what a communicator lets its caller name messages with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/comm/offered_calls.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// What `exchange(post)` calls post with. Messages between the same two ranks match in the order in
/// which both ends name them; sizes must agree. The memory stays as it is until the exchange is
/// over.
template <class Batch>
concept exchange_batch = requires(Batch& batch, std::span<std::byte const> out,
                                  std::span<std::byte> in, rank_id peer) {
  batch.send(out, peer);
  batch.recv(in, peer);
};

/// What `lend(post, visit)` calls post with: `borrow(bytes, from)` wants a message of that many
/// bytes that is read where it is.
template <class Batch>
concept lending_batch = requires(Batch& batch, std::span<std::byte const> out, std::size_t bytes,
                                 rank_id peer) {
  batch.send(out, peer);
  batch.borrow(bytes, peer);
};

/// What `forward(post, arrived)` calls post with: `hold(bytes, to)` names a message whose content
/// is not there yet.
template <class Batch>
concept forwarding_batch = exchange_batch<Batch> && lending_batch<Batch> &&
    requires(Batch& batch, std::span<std::byte const> out, rank_id peer) {
  batch.hold(out, peer);
};

/// What `forward(post, arrived)` hands to arrived: `release(m)` sends the m-th message, which was
/// held.
template <class Gate>
concept release_gate = requires(Gate& gate, std::size_t message) {
  gate.release(message);
};

/// Says which collective a batch belongs to. Both ends compare it, so that ranks that are in
/// different collectives find out.
struct batch_label {
  std::uint64_t plan = 0;  ///< hash of the plan, and of the codec if there is one
  /// Of a gather from 0; those of the reduction that reads it backwards follow; then the whole
  /// gather and the whole reduction, where messages are passed on as they come in.
  int round = 0;
  friend bool operator==(batch_label const&, batch_label const&) = default;
};

/// Optional extra of any batch: `label(batch_label)`, called at most once and before the messages.
template <class Batch>
concept labelled_batch = requires(Batch& batch, batch_label const& label) {
  batch.label(label);
};

namespace detail {

template <class Batch>
concept its_label_takes_a_batch_label = labelled_batch<Batch> || !offers_label<Batch>;

}  // namespace detail

/// Labels a batch that takes labels.
template <class Batch>
requires detail::its_label_takes_a_batch_label<Batch>
void set_label(Batch& batch, batch_label const& label) {
  if constexpr (labelled_batch<Batch>) batch.label(label);
}

}  // namespace fssdp
