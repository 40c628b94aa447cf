// SPDX-License-Identifier: Apache-2.0
/// The shared state of ranks on devices of one process: events, and the parts of all ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/peer/peer_copies.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "fssdp/comm/peer/peer_part.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp::detail {

/// The events of one communicator, and the ranks that meet. They are not owned by a rank, as peers
/// may wait for events of a rank that has left. The thread that enqueues for ranks that have met
/// holds the lock.
class peer_context {
 public:
  /// A stream for work that is enqueued once for several ranks.
  struct joint_stream {
    joint_stream(rank_id first, cuda_priority priority)
        : stream{make_cuda_stream(first, priority)} {
      for (auto& event : events) event = make_cuda_event(first);
    }
    /// The events in turn, which mark the ends of exchanges.
    [[nodiscard]] cudaEvent_t next_event() { return events[turn++ % events.size()].get(); }

    cuda_stream stream;
    std::array<cuda_event, 32> events;
    std::size_t turn = 0;
  };

  /// @param joint the priority of the joint streams
  peer_context(peer_devices const& devices, int ranks, cuda_priority joint)
      : events_(static_cast<std::size_t>(ranks)), parts_(events_.size()) {
    auto current = same_device_after{};
    for (auto const rank : first_n<rank_id>(ranks)) {
      current.use(devices.device_of(rank), rank);
      events_[rank.index()] = {make_cuda_event(rank), make_cuda_event(rank)};
      if (rank.value() < devices.count()) joint_.emplace_back(rank, joint);
    }
  }

  /// Reached when the data that a rank sends is ready, and its receive buffers may be written.
  [[nodiscard]] cudaEvent_t ready(rank_id rank) const { return events_[rank.index()].ready.get(); }
  /// Reached when a rank has read its messages of an exchange.
  [[nodiscard]] cudaEvent_t done(rank_id rank) const { return events_[rank.index()].done.get(); }

  /// The part of a rank that is at a meeting.
  [[nodiscard]] peer_part*& part(rank_id rank) { return parts_[rank.index()]; }

  std::mutex mutex;  // guards the following members, and the events
  [[nodiscard]] joint_stream& joint(int device) { return joint_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] peer_copies& copies() { return copies_; }
  [[nodiscard]] device_sums& sums() { return sums_; }

 private:
  struct rank_events {
    cuda_event ready;
    cuda_event done;
  };
  std::vector<rank_events> events_;  // [ranks]
  std::vector<peer_part*> parts_;    // [ranks]
  std::vector<joint_stream> joint_;  // [devices]
  peer_copies copies_;
  device_sums sums_;
};

}  // namespace fssdp::detail
