// SPDX-License-Identifier: Apache-2.0
/// A rank that is a stream of a device, among others of the same process.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_work.hpp"
#include "fssdp/comm/peer/peer_context.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "fssdp/comm/peer/peer_meeting.hpp"
#include "fssdp/comm/peer/peer_options.hpp"
#include "fssdp/comm/peer/peer_part.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp {

class peer_world;

/// A rank of a peer_world (peer.hpp). The threads of the ranks meet and exchange addresses; all
/// other work is enqueued, by one of the threads for all of them. The receiver's stream waits until
/// the sender's data is ready, reads it in place, and the sender's stream continues when that is
/// done.
///
/// Memory that is sent or written may be reused when the stream has passed the exchange, not when
/// the call returns. A rank that throws, leaves or stalls is named as between threads. After the
/// first error all later calls throw.
///
/// @cost per exchange: its copies; for each rank at most three events, and waits for two events, or
///       one per pair of ranks where those are fewer. If ranks share a device and kernels copy: one
///       launch for up to 128 messages, or 32 sums, of all of them; otherwise one for those of
///       each. Threads wait for one another, but not for a device. No allocation if there has been
///       a batch as large before
class peer_communicator : public detail::cuda_work<peer_communicator> {
 public:
  using stream_type = cudaStream_t;
  using memory_space = device_memory;

  [[nodiscard]] rank_id rank() const { return meeting_.rank(); }
  [[nodiscard]] int size() const { return meeting_.size(); }
  [[nodiscard]] cudaStream_t stream() const { return part_->stream(); }
  [[nodiscard]] bool has_failed() const { return failure_.has_failed(); }

  /// @pre the stream is not captured
  /// @throws what `post` throws and argument_error, before anything is sent; ranks_disagree,
  ///         peer_failed, deadline_exceeded, transport_error; poisoned_stream if an earlier call
  ///         has failed
  template <class Post>
  void exchange(Post&& post) {
    meet([&](auto& meeting) {
      auto batch = receiving<std::remove_reference_t<decltype(meeting)>>{{*this, meeting}};
      post(batch);
    });
  }

  /// Optional: the work that `visit` enqueues on the stream reads peers' memory in place
  /// (lending_communicator). The thread of another rank may call it while this one waits.
  /// @throws as exchange, and what `visit` throws
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    meet([&](auto& meeting) {
      auto batch = borrowing<std::remove_reference_t<decltype(meeting)>>{{*this, meeting}};
      post(batch);
      part_->visits(visit);
    });
  }

  /// Runs the work at once, which enqueues everything. If kernels copy, copies within this rank's
  /// memory may be delayed, to be made together with those of the next exchange.
  template <class Work>
  void submit(Work work) {
    auto const until_the_end = putting_off{*this};
    work(*this);
    guarded([] {});  // makes delayed copies
  }
  /// @throws poisoned_stream, transport_error
  void copy(std::span<std::byte> to, std::span<std::byte const> from) {
    if (!puts_off_ || options_->copies != copied_by::kernels) return cuda_work::copy(to, from);
    if (part_->has_to_follow(to, from)) guarded([] {});
    check();
    part_->put_off(to, from);
  }
  /// In a visit of lent memory, sums may be formed together with those of other ranks.
  /// @throws as cuda_work::sum
  void sum(device_sums const& of) {
    check();
    if (kernels().sum == nullptr || !part_->put_off(of)) cuda_work::sum(of);
  }
  /// Frees memory, after delayed copies.
  void free(std::span<std::byte> memory) noexcept {
    try {
      guarded([] {});
    } catch (...) {  // reported by each later call
    }
    cuda_work::free(memory);
  }
  /// Waits for the stream.
  /// @throws the first error, on every call; deadline_exceeded without progress: the text says what
  ///         it waits for
  void synchronize() {
    failure_.rethrow();
    guarded([&] { part_->watch().wait_for(stream(), options_->deadline, [] {}); });
  }

  /// An all-gather of host values: mine [n] -> all [size, n] bytes. Between threads; no device
  /// takes part.
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

  /// Another communicator between the same ranks, on the same stream or another one of the same
  /// device. Every rank makes the same duplicates in the same order.
  [[nodiscard]] peer_communicator duplicate() { return duplicate(stream()); }
  [[nodiscard]] peer_communicator duplicate(cudaStream_t stream);

 private:
  friend peer_world;
  friend detail::cuda_work<peer_communicator>;

  /// The batch: passes messages on to the meeting of the threads, and records them.
  template <class Meeting>
  struct sending {
    peer_communicator& comm;
    Meeting& meeting;
    void send(std::span<std::byte const> bytes, rank_id to) {
      meeting.send(bytes, to);
      comm.part_->sends(bytes, to);
    }
    void label(batch_label const& value) {
      meeting.label(value);
      if (std::exchange(comm.plan_, value.plan) != value.plan)
        comm.part_->watch().begin_plan(value.plan);
    }
  };
  template <class Meeting>
  struct borrowing : sending<Meeting> {
    void borrow(std::size_t bytes, rank_id from) {
      this->meeting.borrow(bytes, from);
      this->comm.part_->borrows(from);
    }
  };
  template <class Meeting>
  struct receiving : sending<Meeting> {
    void recv(std::span<std::byte> bytes, rank_id from) {
      this->meeting.borrow(bytes.size(), from);
      this->comm.part_->receives(this->comm.way_from(from), bytes, from);
    }
  };
  /// Copies may be delayed during its lifetime.
  struct putting_off {
    peer_communicator& comm;
    explicit putting_off(peer_communicator& of) : comm{of} { comm.puts_off_ = true; }
    putting_off(putting_off const&) = delete;
    putting_off& operator=(putting_off const&) = delete;
    ~putting_off() {
      comm.puts_off_ = false;
      comm.part_->forget_put_off();  // not empty only after an exception
    }
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
        devices_{&devices},
        part_{std::make_unique<detail::peer_part>(meeting_.rank(), meeting_.size(), stream)} {
    detail::load_kernels(options.kernels, rank());
  }

  /// Adds messages, meets their peers, and has the copies enqueued.
  template <class Name>
  void meet(Name name) {
    check();
    detail::require(!detail::is_captured(stream(), rank()),
                    "exchange while a graph is captured; expected none: the streams of several "
                    "ranks would have to become one graph");
    part_->begin();
    context_->part(rank()) = part_.get();
    auto named = false;
    try {
      meeting_.meet(
          [&](auto& meeting) {
            name(meeting);
            named = true;
          },
          [&](auto lent) {
            if (!part_->is_copied() || part_->has_to_copy_first()) copy_what_is_put_off();
            part_->prepare(lent);
          },
          [&](detail::thread_meeting const& of) {
            detail::peer_meeting{*context_, *devices_, *options_, of}.enqueue();
          });
    } catch (...) {
      if (named) fail(std::current_exception());
      throw;
    }
  }
  void check() const { failure_.check(rank()); }
  [[nodiscard]] device_kernels const& kernels() const { return options_->kernels; }
  /// Allocates memory that peers can read, too.
  [[nodiscard]] cudaError_t request(void** memory, std::size_t bytes) const {
    return cudaMallocFromPoolAsync(memory, bytes, devices_->pool_of(rank()), stream());
  }
  template <class Work>
  void guarded(Work work) {
    check();
    try {
      copy_what_is_put_off();
      sum_what_is_put_off();
      work();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }
  /// Makes delayed copies, as the next work may need them.
  void copy_what_is_put_off() {
    if (!part_->has_put_off()) return;
    auto launches = detail::copy_launches{stream(), rank(), kernels(), 0};
    launches.add(part_->take_put_off());
    launches.end();
  }
  void sum_what_is_put_off() {
    if (part_->has_put_off_sums())
      detail::cuda_require(kernels().sum(stream(), part_->take_put_off_sums()), rank(),
                           "a kernel that sums");
  }
  /// Marks the communicator as failed: nothing is enqueued any more.
  void fail(std::exception_ptr failure) noexcept {
    failure_.set(std::move(failure));
    drain();
  }
  void drain() const noexcept { detail::drain(stream(), options_->deadline); }

  peer_world* world_;
  peer_options const* options_;
  detail::peer_context* context_;
  thread_communicator meeting_;  // for the meetings of the threads
  detail::peer_devices const* devices_;
  std::unique_ptr<detail::peer_part> part_;  // other ranks have its address
  bool puts_off_ = false;
  std::uint64_t plan_ = 0;
  detail::failure_state failure_;
};

static_assert(device_communicator<peer_communicator>);
static_assert(lending_communicator<peer_communicator>);

}  // namespace fssdp
