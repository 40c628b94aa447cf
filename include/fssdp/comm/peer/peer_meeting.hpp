// SPDX-License-Identifier: Apache-2.0
/// Enqueues the work of all ranks that have met in an exchange, from one thread.
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

/// Receivers' streams wait until senders are ready, and read; senders' streams continue when that
/// is done. Where this needs many events, ranks wait for one event that covers all. Where ranks
/// share a device and kernels copy, one launch does the work of all of them.
///
/// If each rank enqueued its own work, the threads would contend for the driver: with eight of
/// them, each call takes ten times as long.
class peer_meeting {
 public:
  peer_meeting(peer_context& context, peer_devices const& devices, peer_options const& options,
               thread_meeting const& of)
      : context_{context}, devices_{devices}, options_{options}, of_{of} {}

  /// Enqueues the work. Errors are thrown on the rank that they concern.
  void enqueue() {
    auto const lock = std::scoped_lock{context_.mutex};
    choose();
    for_all([&](peer_part& part) {
      if (part.is_read() || is_one_launch_) part.record(context_.ready(part.rank()));
    });
    if (is_one_launch_)
      all_done_ = jointly([&](cudaStream_t joint) { copy_for_all(joint); });
    else
      read_one_by_one();
    for_all([&](peer_part& part) { end(part); });
  }

 private:
  /// Chooses which work is done jointly.
  void choose() {
    device_ = devices_.device_of(of_.ranks.front());
    auto const share_device =
        of_.ranks.size() > 1 && std::ranges::all_of(of_.ranks, [&](rank_id rank) {
          return devices_.device_of(rank) == device_;
        });
    auto const all_copied = std::ranges::all_of(
        of_.ranks, [&](rank_id rank) { return context_.part(rank)->is_copied(); });
    is_one_launch_ = share_device && all_copied && options_.copies == copied_by::kernels;
    forms_sums_ = share_device && !all_copied;
    is_joint_ = is_one_launch_ || forms_sums_ || messages() > 2 * of_.ranks.size() + 1;
  }
  /// The number of pairs of ranks between which there are messages, in either direction.
  [[nodiscard]] std::size_t messages() const {
    auto pairs = std::size_t{0};
    for (auto const rank : of_.ranks)
      context_.part(rank)->for_each_sender([&](rank_id) { ++pairs; });
    return pairs;
  }

  /// Copies for all ranks in one launch on a joint stream.
  void copy_for_all(cudaStream_t joint) {
    for (auto const rank : of_.ranks) await(joint, context_.ready(rank));
    auto const copies_of = [&](rank_id rank) -> peer_copies& {
      return context_.part(rank)->copies();
    };
    auto launches = launches_on(joint, of_.ranks.front());
    if (std::ranges::any_of(of_.ranks, [&](rank_id rank) { return copies_of(rank).has_large(); })) {
      auto& copies = context_.copies();
      copies.clear();
      for (auto const rank : of_.ranks) copies.append(copies_of(rank));
      copies.put_equal_sources_together();
      launches.add(copies);
    } else {
      for (auto const rank : of_.ranks) launches.add(copies_of(rank));
    }
    launches.end();
  }
  /// Each rank's stream reads its own messages.
  void read_one_by_one() {
    if (is_joint_)
      all_ready_ = jointly([&](cudaStream_t joint) {
        for (auto const rank : of_.ranks)
          if (context_.part(rank)->is_read()) await(joint, context_.ready(rank));
      });
    for_all([&](peer_part& part) { read(part); });
    if (is_joint_)
      all_done_ = jointly([&](cudaStream_t joint) {
        for (auto const rank : of_.ranks)
          if (context_.part(rank)->reads_any()) await(joint, context_.done(rank));
        if (forms_sums_) sum_for_all(joint);
      });
  }
  /// Forms the delayed sums of several ranks.
  void sum_for_all(cudaStream_t joint) {
    auto& sums = context_.sums();
    sums.count = 0;
    auto const launch = [&] {
      if (sums.count != 0)
        cuda_require(options_.kernels.sum(joint, sums), of_.ranks.front(), "a kernel that sums");
    };
    for (auto const rank : of_.ranks) {
      auto& part = *context_.part(rank);
      if (!part.has_put_off_sums()) continue;
      auto const own = part.take_put_off_sums();
      if (sums.count != 0 && sums.is_like(own) && sums.has_room_for(own.operand_count, own.count)) {
        sums.append(own);
      } else {
        launch();
        sums = own;
      }
    }
    launch();
  }
  void read(peer_part& part) {
    if (is_joint_ && part.reads_any())
      part.await(all_ready_);
    else
      part.for_each_sender([&](rank_id from) { part.await(context_.ready(from)); });
    auto const is_over = records_when_it_goes{part, context_.done(part.rank())};
    if (part.is_copied())
      enqueue_copies(part.copies(), part.stream(), part.rank());
    else
      part.visit(forms_sums_);
  }
  void end(peer_part& part) {
    if (is_one_launch_ || forms_sums_ || (is_joint_ && part.is_read()))
      part.await(all_done_);
    else
      part.for_each_reader([&](rank_id to) { part.await(context_.done(to)); });
    if (is_one_launch_ || forms_sums_)
      part.watch().end_exchange_by(all_done_);
    else
      part.watch().end_exchange(part.stream());
  }

  /// Calls work(stream) with the joint stream. Errors concern all ranks.
  /// @return an event after the work, also if a part of it has failed
  template <class Work>
  cudaEvent_t jointly(Work work) {
    auto& joint = context_.joint(device_);
    auto const over = joint.next_event();
    auto const stream = joint.stream.get();
    try {
      use(of_.ranks.front());
      work(stream);
      cuda_require(cudaEventRecord(over, stream), of_.ranks.front(), "cudaEventRecord");
    } catch (...) {
      (void)cudaEventRecord(over, stream);
      for (auto const rank : of_.ranks) of_.refuse(rank, std::current_exception());
    }
    return over;
  }
  void await(cudaStream_t joint, cudaEvent_t event) const {
    cuda_require(cudaStreamWaitEvent(joint, event, 0), of_.ranks.front(), "cudaStreamWaitEvent");
  }
  void enqueue_copies(peer_copies& copies, cudaStream_t stream, rank_id rank) const {
    if (options_.copies == copied_by::engines) return copies.enqueue_on_engines(stream, rank);
    auto launches = launches_on(stream, rank);
    launches.add(copies);
    launches.end();
  }
  [[nodiscard]] copy_launches launches_on(cudaStream_t stream, rank_id rank) const {
    return {stream, rank, options_.kernels, static_cast<std::size_t>(options_.copy_blocks)};
  }

  /// Calls work(part) for each rank, with its device as the current one.
  template <class Work>
  void for_all(Work work) {
    for (auto const rank : of_.ranks) try {
        use(rank);
        work(*context_.part(rank));
      } catch (...) {
        of_.refuse(rank, std::current_exception());
      }
  }
  void use(rank_id rank) { current_.use(devices_.device_of(rank), rank); }

  /// Records the events that lenders wait for, also after a failure.
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
  int device_ = 0;  // of joint work
  cudaEvent_t all_ready_ = nullptr;
  cudaEvent_t all_done_ = nullptr;  // after joint work
  same_device_after current_;
  bool is_joint_ = false;
  bool is_one_launch_ = false;
  bool forms_sums_ = false;  // of several ranks in one launch
};

}  // namespace fssdp::detail
