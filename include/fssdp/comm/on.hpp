// SPDX-License-Identifier: Apache-2.0
/// Binds a host communicator to a stream: its collectives then run behind the caller's back.
#pragma once

#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/host_stream.hpp"

namespace fssdp {

/// A handle on a communicator whose work is enqueued on a host_stream. Communicator and stream must
/// outlive it, and everything given to a collective must live until `synchronize` has returned.
template <communicator Comm>
class queued_communicator {
 public:
  using stream_type = host_stream;
  using memory_space = typename Comm::memory_space;

  queued_communicator(Comm& comm, host_stream& stream) : comm_{&comm}, stream_{&stream} {}

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] host_stream& stream() const { return *stream_; }

  /// Enqueues; `post` runs later, in the stream's thread.
  template <class Post>
  void exchange(Post post) {
    submit([post = std::move(post)](Comm& comm) mutable { comm.exchange(post); });
  }
  template <class Work>
  void submit(Work work) {
    stream_->enqueue([comm = comm_, work = std::move(work)]() mutable { work(*comm); });
  }
  void synchronize() { stream_->synchronize(); }

 private:
  Comm* comm_;
  host_stream* stream_;
};

/// `comm` with its work enqueued on `stream`. Every host communicator can be bound.
/// @throws (later) work errors come from synchronize and poison the stream
template <communicator Comm>
requires std::same_as<typename Comm::stream_type, inline_stream>
[[nodiscard]] queued_communicator<Comm> on(Comm& comm, host_stream& stream) {
  return {comm, stream};
}

}  // namespace fssdp
