// SPDX-License-Identifier: Apache-2.0
/// What one thread enqueues for all ranks that have met in an exchange.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/peer/peer_context.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "fssdp/comm/peer/peer_options.hpp"
#include "fssdp/comm/peer/peer_part.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The streams of receivers wait until senders are ready, read, and those of the senders go on when
/// that is done. Where that would be many events, ranks wait for one that stands for all; where
/// they share a device and kernels copy, one launch does what all of them want.
///
/// The threads of the ranks would fight over the driver: with eight of them, each call takes ten
/// times as long as here, one after the other.
class peer_meeting {
 public:
  peer_meeting(peer_context& context, peer_devices const& devices, peer_options const& options,
               thread_meeting const& of)
      : context_{context}, devices_{devices}, options_{options}, of_{of} {}

  /// What fails is thrown on the rank that it is about.
  void enqueue() {
    auto const lock = std::scoped_lock{context_.mutex};
    auto const same = same_device_after{};
    choose();
    for_all([&](peer_part& part) { begin(part); });
    if (is_joint_) for_joint(context_.joint(device_).ready.get(), [&] { await_all_ready(); });
    if (is_one_launch_)
      for_joint(context_.joint(device_).done.get(), [&] { copy_for_all(); });
    else
      for_all([&](peer_part& part) { read(part); });
    if (is_joint_ && !is_one_launch_)
      for_joint(context_.joint(device_).done.get(), [&] { await_all_done(); });
    for_all([&](peer_part& part) { end(part); });
  }

 private:
  /// How much is done at once.
  void choose() {
    auto pairs = std::size_t{0};
    auto one_device = true;
    auto all_copied = true;
    device_ = devices_.device_of(of_.ranks.front());
    for (auto const rank : of_.ranks) {
      auto const& part = *context_.part(rank);
      part.for_each_sender([&](rank_id) { ++pairs; });
      one_device &= devices_.device_of(rank) == device_;
      all_copied &= part.is_copied();
    }
    is_one_launch_ =
        of_.ranks.size() > 1 && one_device && all_copied && options_.copies == copied_by::kernels;
    is_joint_ = is_one_launch_ || pairs > 2 * of_.ranks.size() + 1;
  }

  void begin(peer_part& part) {
    part.watch().begin_exchange(part.stream());
    for (auto const peer : of_.ranks)
      if (part.meets(peer)) part.watch().add_peer(peer);
    if (!part.is_copied() || part.has_to_copy_first()) copy_what_is_put_off(part);
    if (part.is_read() || is_one_launch_) part.record(context_.ready(part.rank()));
  }
  void copy_what_is_put_off(peer_part& part) {
    if (!part.has_put_off()) return;
    context_.copies().clear();
    part.add_put_off(context_.copies());
    enqueue_copies(part.stream(), part.rank());
  }
  void read(peer_part& part) {
    if (is_joint_ && part.reads_any())
      part.await(context_.joint(device_).ready.get());
    else
      part.for_each_sender([&](rank_id from) { part.await(context_.ready(from)); });
    auto const is_over = records_when_it_goes{part, context_.done(part.rank())};
    auto const lent = of_.lent(part.rank());
    if (!part.is_copied()) return part.visit(lent);
    context_.copies().clear();
    part.add_put_off(context_.copies());
    part.add_messages(context_.copies(), lent);
    enqueue_copies(part.stream(), part.rank());
  }
  void end(peer_part& part) {
    if (is_one_launch_ || (is_joint_ && part.is_read()))
      part.await(context_.joint(device_).done.get());
    else
      part.for_each_reader([&](rank_id to) { part.await(context_.done(to)); });
    part.watch().end_exchange(part.stream());
  }

  /// On the joint stream, and then an event there.
  template <class Work>
  void for_joint(cudaEvent_t then, Work work) {
    auto const first = of_.ranks.front();
    try {
      use(first);
      work();
      cuda_require(cudaEventRecord(then, joint_stream()), first, "cudaEventRecord");
    } catch (...) {
      for (auto const rank : of_.ranks) of_.refuse(rank, std::current_exception());
    }
  }
  void await_all_ready() const {
    for (auto const rank : of_.ranks)
      if (is_one_launch_ || context_.part(rank)->is_read()) await_jointly(context_.ready(rank));
  }
  void await_all_done() const {
    for (auto const rank : of_.ranks)
      if (context_.part(rank)->reads_any()) await_jointly(context_.done(rank));
  }
  void await_jointly(cudaEvent_t event) const {
    cuda_require(cudaStreamWaitEvent(joint_stream(), event, 0), of_.ranks.front(),
                 "cudaStreamWaitEvent");
  }
  void copy_for_all() {
    context_.copies().clear();
    for (auto const rank : of_.ranks) {
      auto& part = *context_.part(rank);
      part.add_put_off(context_.copies());
      part.add_messages(context_.copies(), of_.lent(rank));
    }
    context_.copies().put_equal_sources_together();
    enqueue_copies(joint_stream(), of_.ranks.front());
  }
  void enqueue_copies(cudaStream_t stream, rank_id rank) {
    if (options_.copies == copied_by::engines)
      context_.copies().enqueue_on_engines(stream, rank);
    else
      context_.copies().enqueue_as_kernels(stream, rank, options_.kernels,
                                           static_cast<std::size_t>(options_.copy_blocks));
  }
  [[nodiscard]] cudaStream_t joint_stream() const { return context_.joint(device_).stream.get(); }

  /// Calls work(part) for each rank, its device being the current one.
  template <class Work>
  void for_all(Work work) {
    for (auto const rank : of_.ranks) try {
        use(rank);
        work(*context_.part(rank));
      } catch (...) {
        of_.refuse(rank, std::current_exception());
      }
  }
  void use(rank_id rank) {
    auto const device = devices_.device_of(rank);
    if (device == current_) return;
    devices_.use(rank);
    current_ = device;
  }

  /// Those who lend wait for what is enqueued, also where something has failed.
  struct records_when_it_goes {
    peer_part const& part;
    cudaEvent_t event;
    ~records_when_it_goes() {
      if (part.reads_any()) (void)cudaEventRecord(event, part.stream());
    }
  };

  peer_context& context_;
  peer_devices const& devices_;
  peer_options const& options_;
  thread_meeting const& of_;
  int device_ = 0;    // of what is done jointly
  int current_ = -1;  // of this thread
  bool is_joint_ = false;
  bool is_one_launch_ = false;
};

}  // namespace fssdp::detail
