// SPDX-License-Identifier: Apache-2.0
/// Binds a host communicator to a stream: its collectives then run asynchronously.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/stream/host_stream.hpp"

namespace fssdp {

/// A handle on a communicator whose work is enqueued on a host_stream. Communicator and stream must
/// outlive it. Memory that a collective reads or writes must live until `synchronize` has returned.
template <communicator Comm>
class queued_communicator {
 public:
  using stream_type = host_stream;
  using memory_space = memory_space_of<Comm>;

  queued_communicator(Comm& comm, host_stream& stream) : comm_{&comm}, stream_{&stream} {}

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] host_stream& stream() const { return *stream_; }

  /// Calls `post` at once, and enqueues the messages that it adds.
  /// @cost one allocation; collectives do not use this, they submit
  template <class Post>
  void exchange(Post&& post) {
    auto batch = recorded_batch{};
    post(batch);
    submit([batch = std::move(batch)](Comm& comm) {
      comm.exchange([&](exchange_batch auto& real) { batch.replay(real); });
    });
  }
  template <class Work>
  void submit(Work work) {
    stream_->enqueue([comm = comm_, work = std::move(work)]() mutable { work(*comm); });
  }
  void synchronize() { stream_->synchronize(); }

 private:
  /// Messages that are added now and exchanged later.
  class recorded_batch {
   public:
    void send(std::span<std::byte const> bytes, rank_id to) {
      messages_.push_back({bytes, {}, to});
    }
    void recv(std::span<std::byte> bytes, rank_id from) { messages_.push_back({{}, bytes, from}); }
    void label(batch_label const& value) { label_ = value; }

    template <class Batch>
    void replay(Batch& batch) const {
      set_label(batch, label_);
      for (auto const& [out, in, peer] : messages_)
        if (in.has_value())
          batch.recv(*in, peer);
        else
          batch.send(out, peer);
    }

   private:
    struct message {
      std::span<std::byte const> out;
      std::optional<std::span<std::byte>> in;  // set for a message to receive
      rank_id peer;
    };
    std::vector<message> messages_;
    batch_label label_;
  };

  Comm* comm_;
  host_stream* stream_;
};

/// Binds `comm` to a stream: its work is enqueued on `stream`. Works with every host communicator.
/// @cost no messages, no allocation
/// @throws errors of the work are thrown by synchronize, and poison the stream
template <communicator Comm>
requires(!stream_bound<Comm>)
    [[nodiscard]] queued_communicator<Comm> on_stream(Comm& comm, host_stream& stream) {
  return {comm, stream};
}

}  // namespace fssdp
