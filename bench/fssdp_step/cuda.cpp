// SPDX-License-Identifier: Apache-2.0
// Ranks that are devices of this process, or share them, and read each other's memory.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "cuda_ranks.hpp"
#include "device_group.hpp"
#include "fssdp/comm/peer.hpp"

namespace step {
namespace {

class peer_ranks : public device_group {
 public:
  explicit peer_ranks(std::chrono::milliseconds deadline) : deadline_{deadline} {
    // Each rank has two streams. Streams that share a queue of the device wait for each other.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (device_count() == 0)
      throw std::invalid_argument{"--backend cuda: no device is found; expected one at least"};
  }

  [[nodiscard]] bool has_rank_0() const override { return true; }
  [[nodiscard]] std::optional<node_shape> nodes() const override { return std::nullopt; }
  [[nodiscard]] std::string devices_for(int ranks) const override {
    return device_names(std::min(ranks, device_count()));
  }

  measurement measure(job const& what, std::filesystem::path const& timeline) override {
    auto const ranks = what.of.where->topology.ranks();
    auto const devices = fssdp::detail::peer_devices{std::min(ranks, device_count())};
    auto world = fssdp::peer_world{
        {.ranks = ranks, .devices = devices.count(), .deadline = deadline_, .kernels = kernels_}};
    return measure_on(
        world, [&](fssdp::rank_id rank) { return devices.pool_of(rank); }, what, timeline);
  }

 private:
  fssdp::device_kernels kernels_ = device_kernels();
  std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<device_group> join_cuda(std::chrono::milliseconds deadline) {
  return std::make_unique<peer_ranks>(deadline);
}

}  // namespace step
