// SPDX-License-Identifier: Apache-2.0
/// An adaptor that records exchanges in a trace.
#pragma once

#include <cstddef>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_adaptor.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp {

/// Passes everything on, and records a range for every exchange, lend and forward, with that name,
/// the label of its batch, and the messages and bytes in both directions; borrowed ones are
/// received. It has the optional functions of the inner communicator.
///
///     auto traced = tracing{comm, &trace, gather_track};
///
/// A null sink records nothing. Submitted work is traced when it runs, in the thread where it runs.
/// Where an exchange only enqueues, as NCCL's does, the range is the time to enqueue it.
/// @cost that of the sink: for a trace_recorder no allocation and no lock
template <communicator Comm, trace_sink Sink>
class tracing : public communicator_adaptor<tracing<Comm, Sink>, Comm> {
 public:
  tracing(Comm& comm, Sink* sink, trace_track track)
      : tracing::communicator_adaptor{comm}, sink_{sink}, track_{track} {}

  /// The adaptor for submitted work.
  template <communicator Inner>
  [[nodiscard]] tracing<Inner, Sink> around(Inner& inner) const {
    return {inner, sink_, track_};
  }

  template <class Post>
  void exchange(Post&& post) {
    auto range = begin("exchange");
    this->inner().exchange([&](exchange_batch auto& batch) { note(post, batch, range.numbers()); });
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires lending_communicator<Comm> {
    auto range = begin("lend");
    this->inner().lend([&](lending_batch auto& batch) { note(post, batch, range.numbers()); },
                       std::forward<Visit>(visit));
  }
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) requires forwarding_communicator<Comm> {
    auto range = begin("forward");
    this->inner().forward([&](forwarding_batch auto& batch) { note(post, batch, range.numbers()); },
                          std::forward<Arrived>(arrived));
  }

 private:
  struct notes {
    trace_numbers& numbers;

    void sends(std::size_t bytes) {
      numbers.messages_sent += 1;
      numbers.bytes_sent += bytes;
    }
    void receives(std::size_t bytes) {
      numbers.messages_received += 1;
      numbers.bytes_received += bytes;
    }
    void borrows(std::size_t bytes) { receives(bytes); }
    void labels(batch_label const& value) {
      numbers.plan = value.plan;
      numbers.round = value.round;
    }
  };

  [[nodiscard]] trace_range<Sink> begin(static_text name) const {
    return {sink_,
            track_,
            name,
            {.messages_sent = 0, .bytes_sent = 0, .messages_received = 0, .bytes_received = 0}};
  }
  /// Calls `post`, and records the messages that it adds.
  template <class Post, class Batch>
  static void note(Post& post, Batch& batch, trace_numbers& numbers) {
    detail::observe(post, batch, notes{numbers});
  }

  Sink* sink_;
  trace_track track_;
};

}  // namespace fssdp
