// SPDX-License-Identifier: Apache-2.0
/// What ranks on devices of one process tell each other beside addresses: when.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The events of one communicator. They belong to no rank: peers may wait for those of one that has
/// left.
class peer_context {
 public:
  peer_context(peer_devices const& devices, int ranks) {
    auto const same = same_device_after{};
    for (auto const rank : first_n<rank_id>(ranks)) {
      devices.use(rank);
      events_.push_back({make_cuda_event(rank), {make_cuda_event(rank), make_cuda_event(rank)}});
    }
  }

  /// What a rank sends is there. It is recorded again when all receivers have waited for it.
  [[nodiscard]] cudaEvent_t ready(rank_id rank) const { return events_[rank.index()].ready.get(); }
  /// A rank has read what it wanted in an exchange. A rank that is two exchanges ahead of its
  /// sender has recorded it again: then the sender waits for more than it has to.
  [[nodiscard]] cudaEvent_t done(rank_id rank, std::uint64_t exchange) const {
    return events_[rank.index()].done[exchange % 2].get();
  }

 private:
  struct rank_events {
    cuda_event ready;
    std::array<cuda_event, 2> done;
  };
  std::vector<rank_events> events_;  // [rank]
};

}  // namespace fssdp::detail
