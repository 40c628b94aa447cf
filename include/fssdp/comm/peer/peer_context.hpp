// SPDX-License-Identifier: Apache-2.0
/// What ranks on devices of one process tell each other beside addresses: when.
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

/// The events of one communicator, and who is to meet. They belong to no rank: peers may wait for
/// those of one that has left. Whoever enqueues for ranks that have met holds the lock.
class peer_context {
 public:
  /// What is enqueued once for several ranks.
  struct joint_stream {
    joint_stream(rank_id first, cuda_priority priority)
        : stream{make_cuda_stream(first, priority)} {
      for (auto& event : events) event = make_cuda_event(first);
    }
    /// In turn: exchanges that are under way are marked by them.
    [[nodiscard]] cudaEvent_t next_event() { return events[turn++ % events.size()].get(); }

    cuda_stream stream;
    std::array<cuda_event, 32> events;
    std::size_t turn = 0;
  };

  /// @param joint of the streams of what is enqueued once for several ranks
  peer_context(peer_devices const& devices, int ranks, cuda_priority joint)
      : events_(static_cast<std::size_t>(ranks)), parts_(events_.size()) {
    auto const same = same_device_after{};
    for (auto const rank : first_n<rank_id>(ranks)) {
      devices.use(rank);
      events_[rank.index()] = {make_cuda_event(rank), make_cuda_event(rank)};
      if (rank.value() < devices.count()) joint_.emplace_back(rank, joint);
    }
  }

  /// What a rank sends is there, and what it wants may be written.
  [[nodiscard]] cudaEvent_t ready(rank_id rank) const { return events_[rank.index()].ready.get(); }
  /// A rank has read what it wanted in an exchange.
  [[nodiscard]] cudaEvent_t done(rank_id rank) const { return events_[rank.index()].done.get(); }

  /// Of the communicator of a rank that comes to a meeting.
  [[nodiscard]] peer_part*& part(rank_id rank) { return parts_[rank.index()]; }

  std::mutex mutex;  // guards what follows, and the events
  [[nodiscard]] joint_stream& joint(int device) { return joint_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] peer_copies& copies() { return copies_; }
  [[nodiscard]] device_sums& sums() { return sums_; }

 private:
  struct rank_events {
    cuda_event ready;
    cuda_event done;
  };
  std::vector<rank_events> events_;  // [rank]
  std::vector<peer_part*> parts_;    // [rank]
  std::vector<joint_stream> joint_;  // [device]
  peer_copies copies_;
  device_sums sums_;
};

}  // namespace fssdp::detail
