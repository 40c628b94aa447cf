// SPDX-License-Identifier: Apache-2.0
/// Adaptor: counts what goes through a communicator.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/comm/communicator.hpp"

namespace fssdp {

/// What one rank has exchanged.
struct exchange_counts {
  std::uint64_t exchanges = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_borrowed = 0;  ///< of those received: read in place, not copied
  friend bool operator==(exchange_counts const&, exchange_counts const&) = default;
};

/// A communicator that counts and passes everything on. It lends and forwards if the inner one
/// does. To count what goes through a stream, bind the counting one: on_stream(counting, stream).
template <communicator Comm>
requires(!stream_bound<Comm>) class counting {
 public:
  using stream_type = stream_type_of<Comm>;
  using memory_space = memory_space_of<Comm>;

  explicit counting(Comm& comm) : comm_{&comm} {}

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] exchange_counts const& counts() const { return counts_; }
  void reset() { counts_ = {}; }

  template <class Post>
  void exchange(Post&& post) {
    ++counts_.exchanges;
    comm_->exchange([&](exchange_batch auto& batch) {
      auto counted = counted_batch<std::remove_reference_t<decltype(batch)>>{batch, counts_};
      post(counted);
    });
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires lending_communicator<Comm> {
    ++counts_.exchanges;
    comm_->lend(
        [&](auto& batch) {
          auto counted = counted_batch<std::remove_reference_t<decltype(batch)>>{batch, counts_};
          post(counted);
        },
        std::forward<Visit>(visit));
  }

  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) requires forwarding_communicator<Comm> {
    ++counts_.exchanges;
    comm_->forward(
        [&](auto& batch) {
          auto counted = counted_batch<std::remove_reference_t<decltype(batch)>>{batch, counts_};
          post(counted);
        },
        std::forward<Arrived>(arrived));
  }

 private:
  template <class Batch>
  struct counted_batch {
    Batch& batch;
    exchange_counts& counts;

    counted_batch(Batch& of, exchange_counts& into) : batch{of}, counts{into} {}

    void send(std::span<std::byte const> bytes, rank_id to) {
      ++counts.messages_sent;
      counts.bytes_sent += bytes.size();
      batch.send(bytes, to);
    }
    void hold(std::span<std::byte const> bytes, rank_id to) {
      ++counts.messages_sent;
      counts.bytes_sent += bytes.size();
      batch.hold(bytes, to);
    }
    void recv(std::span<std::byte> bytes, rank_id from) {
      ++counts.messages_received;
      counts.bytes_received += bytes.size();
      batch.recv(bytes, from);
    }
    void borrow(std::size_t bytes, rank_id from) {
      ++counts.messages_received;
      counts.bytes_received += bytes;
      counts.bytes_borrowed += bytes;
      batch.borrow(bytes, from);
    }
    void label(batch_label const& value) { set_label(batch, value); }
  };

  Comm* comm_;
  exchange_counts counts_;
};

}  // namespace fssdp
