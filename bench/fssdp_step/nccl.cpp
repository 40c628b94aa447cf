// SPDX-License-Identifier: Apache-2.0
// Ranks over NCCL, a device of this process for each.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "cuda_ranks.hpp"
#include "device_group.hpp"
#include "fssdp/comm/nccl.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"

namespace step {
namespace {

/// Memory that devices open to each other; none where they cannot.
[[nodiscard]] std::optional<fssdp::detail::peer_devices> open_pools(int devices) {
  try {
    return std::optional<fssdp::detail::peer_devices>{std::in_place, devices};
  } catch (fssdp::transport_error const&) {
    return std::nullopt;
  }
}

class nccl_ranks : public device_group {
 public:
  explicit nccl_ranks(std::chrono::milliseconds deadline) : deadline_{deadline} {}

  [[nodiscard]] bool has_rank_0() const override { return true; }
  [[nodiscard]] std::optional<node_shape> nodes() const override { return std::nullopt; }
  [[nodiscard]] std::string devices_for(int ranks) const override {
    return device_names(std::min(ranks, device_count()));
  }

  measurement measure(job const& what, std::filesystem::path const& timeline) override {
    auto const ranks = what.of.where->topology.ranks();
    if (device_count() < ranks)
      throw std::invalid_argument{"--backend nccl: " + std::to_string(device_count()) +
                                  " devices for " + std::to_string(ranks) +
                                  " ranks; expected one for each"};
    auto const pools = open_pools(ranks);
    auto world = fssdp::nccl_world{{.deadline = deadline_, .kernels = kernels_}, ranks};
    auto const pool_of = [&](fssdp::rank_id rank) {
      return pools.has_value() ? pools->pool_of(rank) : nullptr;
    };
    return measure_on(world, pool_of, what, timeline);
  }

 private:
  fssdp::device_kernels kernels_ = device_kernels();
  std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<device_group> join_nccl(std::chrono::milliseconds deadline) {
  return std::make_unique<nccl_ranks>(deadline);
}

}  // namespace step
