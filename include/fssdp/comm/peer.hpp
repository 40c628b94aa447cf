// SPDX-License-Identifier: Apache-2.0
/// Ranks that are devices of one process, or streams that share devices: they read one another's
/// memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/peer/peer_communicator.hpp"
#include "fssdp/comm/peer/peer_context.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "fssdp/comm/peer/peer_options.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// Runs a function once per rank, each in its own thread, with a device and a stream:
///
///     fssdp::peer_world{{.kernels = fssdp::cuda_kernels()}}.run([](auto& comm) { ... });
///
/// If there are more ranks than devices, ranks share devices in turn.
class peer_world {
 public:
  /// @throws argument_error unless there are as many devices, the deadline is positive, and kernels
  ///         are given if they are to copy; transport_error if two devices cannot read each other's
  ///         memory
  explicit peer_world(peer_options const& options = {})
      : options_{checked(options)},
        devices_{options_.devices},
        meetings_{{.ranks = options_.ranks == 0 ? devices_.count() : options_.ranks,
                   .deadline = options_.deadline}} {
    if (options_.copies == copied_by::automatic)
      options_.copies = size() > devices_.count() && options_.kernels.copy != nullptr
                            ? copied_by::kernels
                            : copied_by::engines;
  }

  [[nodiscard]] int size() const { return meetings_.size(); }
  /// The device of a rank's stream and memory.
  [[nodiscard]] int device_of(rank_id rank) const { return devices_.device_of(rank); }

  /// Calls `rank_main(comm)` on every rank, with its device as the current one, and waits for all
  /// of them and their streams. If one of them throws or returns early: see thread_world.
  /// @pre memory that peers read lives until the stream has been synchronized
  /// @throws the exception of the rank that failed first; argument_error if the world runs already
  template <class Main>
  void run(Main&& rank_main) {
    auto const alone = detail::only_run{"peer_world", is_running_};
    contexts_.clear();
    duplicates_.assign(static_cast<std::size_t>(size()), 0);
    auto& context = contexts_.emplace_back(devices_, size(), priority());
    meetings_.run([&](thread_communicator& meeting) {
      auto const rank = meeting.rank();
      devices_.use(rank);
      auto const stream = make_cuda_stream(rank);
      auto comm =
          peer_communicator{*this, options_, devices_, context, std::move(meeting), stream.get()};
      try {
        rank_main(comm);
      } catch (...) {
        comm.drain();
        throw;
      }
      if (!comm.has_failed()) comm.synchronize();
    });
  }

 private:
  friend peer_communicator;

  static peer_options const& checked(peer_options const& of) {
    detail::require(of.ranks >= 0, "peer_world: ", of.ranks, " ranks; expected 0 or more");
    detail::require(of.copies != copied_by::kernels || of.kernels.copy != nullptr,
                    "peer_world: no kernels to copy with; expected .kernels = cuda_kernels()");
    detail::require(of.copy_blocks >= 0, "peer_world: copy_blocks is ", of.copy_blocks,
                    "; expected 0 or more");
    return of;
  }
  /// The context of the n-th duplicate that a rank makes: the same for all ranks.
  detail::peer_context& next_context(rank_id rank) {
    auto const lock = std::scoped_lock{mutex_};
    auto const index = ++duplicates_[rank.index()];
    while (contexts_.size() <= index) contexts_.emplace_back(devices_, size(), priority());
    return contexts_[index];
  }

  /// Long copies that use few multiprocessors have priority over blocks that wait for room.
  [[nodiscard]] cuda_priority priority() const {
    return options_.copy_blocks != 0 ? cuda_priority::high : cuda_priority::normal;
  }

  peer_options options_;
  detail::peer_devices devices_;
  thread_world meetings_;
  std::atomic<bool> is_running_ = false;
  std::mutex mutex_;  // guards the following members while ranks run
  std::deque<detail::peer_context> contexts_;
  std::vector<std::size_t> duplicates_;  // [ranks]
};

inline peer_communicator peer_communicator::duplicate(cudaStream_t stream) {
  auto& context = world_->next_context(rank());
  return {*world_, *options_, world_->devices_, context, meeting_.duplicate(), stream};
}

}  // namespace fssdp
