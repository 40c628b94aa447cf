// SPDX-License-Identifier: Apache-2.0
/// A rank that is a stream of a device, among others of the same process.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_watch.hpp"
#include "fssdp/comm/cuda/cuda_work.hpp"
#include "fssdp/comm/peer/peer_context.hpp"
#include "fssdp/comm/peer/peer_copies.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "fssdp/comm/peer/peer_options.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

class peer_world;

/// A rank of a peer_world (peer.hpp). The threads of the ranks meet and tell each other addresses;
/// all else is enqueued: a receiver's stream waits until the sender's data is ready, reads it where
/// it is, and the sender's stream goes on when that is done.
///
/// Memory that is sent, or written, is free again when the stream has passed the exchange, not when
/// the call returns. A rank that throws, leaves or stalls is named as between threads; on the first
/// error the calls that follow are refused.
///
/// @cost per exchange: its copies, an event or three and one to wait for per peer and direction; the
///       threads wait for each other as in thread_communicator, nobody for a device; no allocation
///       once the largest batch has been seen
class peer_communicator : public detail::cuda_work<peer_communicator> {
 public:
  using stream_type = cudaStream_t;
  using memory_space = device_memory;

  [[nodiscard]] rank_id rank() const { return meeting_.rank(); }
  [[nodiscard]] int size() const { return meeting_.size(); }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] bool has_failed() const { return failure_.has_failed(); }

  /// @pre the stream is not captured
  /// @throws what `post` throws and argument_error, before anything is sent; ranks_disagree,
  ///         peer_failed, deadline_exceeded, transport_error; poisoned_stream if something has
  ///         failed before
  template <class Post>
  void exchange(Post&& post) {
    meet(
        [&](auto& meeting) {
          auto batch = receiving<std::remove_reference_t<decltype(meeting)>>{{*this, meeting}};
          post(batch);
        },
        [&](std::span<std::span<std::byte const> const> lent) {
          copies_.clear();
          for (std::size_t i = 0; i < lent.size(); ++i)
            copies_.add(into_[i].way, into_[i].bytes, lent[i]);
          enqueue_copies();
        });
  }

  /// Optional extra: what `visit` enqueues on the stream reads peers' memory in place
  /// (lending_communicator).
  /// @throws as exchange, and what `visit` throws
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    meet(
        [&](auto& meeting) {
          auto batch = borrowing<std::remove_reference_t<decltype(meeting)>>{{*this, meeting}};
          post(batch);
        },
        visit);
  }

  /// Everything that work does is enqueued: it runs at once.
  template <class Work>
  void submit(Work work) {
    work(*this);
  }
  /// Waits for the stream.
  /// @throws what has failed before, again and again; deadline_exceeded if nothing moves: it says
  ///         what is awaited
  void synchronize() {
    failure_.rethrow();
    guarded([&] { watch_.wait_for(stream_, options_->deadline, [] {}); });
  }

  /// Values of the host from all ranks: mine [n] -> all [size, n] bytes. From thread to thread: no
  /// device is asked.
  /// @throws as exchange
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all) {
    guarded([&] {
      auto const row = [&](rank_id of) {
        return all.subspan(of.index() * mine.size(), mine.size());
      };
      meeting_.exchange([&](auto& batch) {
        for (auto const peer : first_n<rank_id>(size())) {
          if (peer == rank()) continue;
          batch.send(mine, peer);
          batch.recv(row(peer), peer);
        }
      });
      std::ranges::copy(mine, row(rank()).begin());
    });
  }

  /// Another communicator between the same ranks, on the same stream or on another of the same
  /// device. Every rank makes the same duplicates in the same order.
  [[nodiscard]] peer_communicator duplicate() { return duplicate(stream_); }
  [[nodiscard]] peer_communicator duplicate(cudaStream_t stream);

 private:
  friend peer_world;
  friend detail::cuda_work<peer_communicator>;

  /// What a batch passes on to the meeting of the threads, and what it notes.
  template <class Meeting>
  struct sending {
    peer_communicator& comm;
    Meeting& meeting;
    void send(std::span<std::byte const> bytes, rank_id to) {
      meeting.send(bytes, to);
      comm.is_read_by_[to.index()] = 1;
    }
    void label(batch_label const& value) {
      meeting.label(value);
      if (std::exchange(comm.plan_, value.plan) != value.plan) comm.watch_.begin_plan(value.plan);
    }
  };
  template <class Meeting>
  struct borrowing : sending<Meeting> {
    void borrow(std::size_t bytes, rank_id from) {
      this->meeting.borrow(bytes, from);
      this->comm.reads_[from.index()] = 1;
    }
  };
  template <class Meeting>
  struct receiving : sending<Meeting> {
    void recv(std::span<std::byte> bytes, rank_id from) {
      this->meeting.borrow(bytes.size(), from);
      this->comm.reads_[from.index()] = 1;
      this->comm.into_.push_back({this->comm.way_from(from), bytes});
    }
  };

  /// Where a message is to go.
  struct incoming {
    detail::copy_way way;
    std::span<std::byte> bytes;
  };
  [[nodiscard]] detail::copy_way way_from(rank_id peer) const {
    return devices_->device_of(peer) == devices_->device_of(rank())
               ? detail::copy_way::within_device
               : detail::copy_way::between_devices;
  }

  peer_communicator(peer_world& world, peer_options const& options,
                    detail::peer_devices const& devices, detail::peer_context& context,
                    thread_communicator meeting, cudaStream_t stream)
      : world_{&world},
        options_{&options},
        context_{&context},
        meeting_{std::move(meeting)},
        stream_{stream},
        devices_{&devices},
        watch_{meeting_.rank(), meeting_.size()},
        reads_(static_cast<std::size_t>(meeting_.size())),
        is_read_by_(static_cast<std::size_t>(meeting_.size())) {
    detail::load_kernels(options.kernels, rank());
  }

  /// Names messages, meets the ranks they go to and come from, and lets `read` enqueue what is done
  /// with those that come, between the events that say when.
  template <class Name, class Read>
  void meet(Name name, Read&& read) {
    check();
    detail::require(!detail::is_captured(stream_, rank()),
                    "exchange while a graph is captured; expected none: the streams of several "
                    "ranks would have to become one graph");
    std::ranges::fill(reads_, 0);
    std::ranges::fill(is_read_by_, 0);
    into_.clear();
    auto named = false;
    try {
      meeting_.lend(
          [&](auto& batch) {
            name(batch);
            named = true;
            begin();
          },
          [&](std::span<std::span<std::byte const> const> lent) { enqueue_reading(read, lent); });
      for_each(is_read_by_, [&](rank_id to) { await(context_->done(to, exchange_)); });
      watch_.end_exchange(stream_);
    } catch (...) {
      if (named) fail(std::current_exception());
      throw;
    }
  }
  /// All is named: what this rank sends is ready when the stream comes here.
  void begin() {
    ++exchange_;
    watch_.begin_exchange(stream_);
    for (auto const peer : first_n<rank_id>(size()))
      if (reads_[peer.index()] != 0 || is_read_by_[peer.index()] != 0) watch_.add_peer(peer);
    if (std::ranges::count(is_read_by_, 1) != 0) record(context_->ready(rank()));
  }
  template <class Read>
  void enqueue_reading(Read& read, std::span<std::span<std::byte const> const> lent) {
    for_each(reads_, [&](rank_id from) { await(context_->ready(from)); });
    try {
      read(lent);
    } catch (...) {  // those who lend wait for what is enqueued
      (void)cudaEventRecord(context_->done(rank(), exchange_), stream_);
      throw;
    }
    if (!lent.empty()) record(context_->done(rank(), exchange_));
  }
  void enqueue_copies() {
    if (options_->copies == copied_by::engines)
      copies_.enqueue_on_engines(stream_, rank());
    else
      copies_.enqueue_as_kernels(stream_, rank(), options_->kernels);
  }

  template <class Visit>
  static void for_each(std::vector<std::uint8_t> const& of, Visit visit) {
    for (std::size_t peer = 0; peer < of.size(); ++peer)
      if (of[peer] != 0) visit(rank_id{peer});
  }
  void record(cudaEvent_t event) const {
    detail::cuda_require(cudaEventRecord(event, stream_), rank(), "cudaEventRecord");
  }
  void await(cudaEvent_t event) const {
    detail::cuda_require(cudaStreamWaitEvent(stream_, event, 0), rank(), "cudaStreamWaitEvent");
  }
  void check() const { failure_.check(rank()); }
  [[nodiscard]] device_kernels const& kernels() const { return options_->kernels; }
  /// Peers can read it, too.
  [[nodiscard]] cudaError_t request(void** memory, std::size_t bytes) const {
    return cudaMallocFromPoolAsync(memory, bytes, devices_->pool_of(rank()), stream_);
  }
  template <class Work>
  void guarded(Work work) {
    check();
    try {
      work();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }
  /// From now on nothing is enqueued; what peers have begun to read stays until they have finished.
  void fail(std::exception_ptr failure) noexcept {
    failure_.set(std::move(failure));
    for_each(is_read_by_, [&](rank_id to) {
      (void)cudaStreamWaitEvent(stream_, context_->done(to, exchange_), 0);
    });
    drain();
  }
  void drain() const noexcept { detail::drain(stream_, options_->deadline); }

  peer_world* world_;
  peer_options const* options_;
  detail::peer_context* context_;
  thread_communicator meeting_;  // of the threads
  cudaStream_t stream_;
  detail::peer_devices const* devices_;
  detail::cuda_watch watch_;
  std::vector<std::uint8_t> reads_;       // [rank]: whether this rank reads its memory
  std::vector<std::uint8_t> is_read_by_;  // [rank]: the other way round
  std::vector<incoming> into_;
  detail::peer_copies copies_;
  std::uint64_t exchange_ = 0;
  std::uint64_t plan_ = 0;
  detail::failure_state failure_;
};

static_assert(device_communicator<peer_communicator>);
static_assert(lending_communicator<peer_communicator>);

}  // namespace fssdp
