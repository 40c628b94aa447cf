// SPDX-License-Identifier: Apache-2.0
/// Adaptor: records when a communicator exchanges, and how much.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp {

/// A communicator that passes everything on, and to a sink a range for every exchange, lend and
/// forward, by that name: with the label of its batch, and the messages and bytes of both
/// directions; those that are borrowed are received. It lends and forwards if the inner one does.
///
///     auto traced = tracing{comm, &trace, gather_lane};
///
/// A sink that is null gets nothing. To trace what goes through a stream, bind the traced one:
/// on_stream(traced, stream).
/// @cost the sink's: of a trace_recorder no allocation and no lock
template <communicator Comm, trace_sink Sink>
requires(!stream_bound<Comm>) class tracing {
 public:
  using stream_type = stream_type_of<Comm>;
  using memory_space = memory_space_of<Comm>;

  tracing(Comm& comm, Sink* sink, trace_lane lane) : comm_{&comm}, sink_{sink}, lane_{lane} {}

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }

  template <class Post>
  void exchange(Post&& post) {
    auto range = begin("exchange");
    comm_->exchange([&](exchange_batch auto& batch) { traced(post, range.numbers())(batch); });
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires lending_communicator<Comm> {
    auto range = begin("lend");
    comm_->lend(traced(post, range.numbers()), std::forward<Visit>(visit));
  }
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) requires forwarding_communicator<Comm> {
    auto range = begin("forward");
    comm_->forward(traced(post, range.numbers()), std::forward<Arrived>(arrived));
  }

 private:
  template <class Batch>
  struct traced_batch {
    Batch& batch;
    trace_numbers& numbers;

    void send(std::span<std::byte const> bytes, rank_id to) {
      sends(bytes.size());
      batch.send(bytes, to);
    }
    void hold(std::span<std::byte const> bytes, rank_id to) {
      sends(bytes.size());
      batch.hold(bytes, to);
    }
    void recv(std::span<std::byte> bytes, rank_id from) {
      receives(bytes.size());
      batch.recv(bytes, from);
    }
    void borrow(std::size_t bytes, rank_id from) {
      receives(bytes);
      batch.borrow(bytes, from);
    }
    void label(batch_label const& value) {
      numbers.plan = value.plan;
      numbers.round = value.round;
      set_label(batch, value);
    }

   private:
    void sends(std::size_t bytes) {
      numbers.messages_sent += 1;
      numbers.bytes_sent += bytes;
    }
    void receives(std::size_t bytes) {
      numbers.messages_received += 1;
      numbers.bytes_received += bytes;
    }
  };

  [[nodiscard]] trace_range<Sink> begin(static_text name) const {
    return {sink_,
            lane_,
            name,
            {.messages_sent = 0, .bytes_sent = 0, .messages_received = 0, .bytes_received = 0}};
  }
  /// `post`, with what it names written down.
  template <class Post>
  [[nodiscard]] static auto traced(Post& post, trace_numbers& numbers) {
    return [&post, &numbers](auto& batch) {
      auto noted = traced_batch<std::remove_reference_t<decltype(batch)>>{batch, numbers};
      post(noted);
    };
  }

  Comm* comm_;
  Sink* sink_;
  trace_lane lane_;
};

}  // namespace fssdp
