// SPDX-License-Identifier: Apache-2.0
/// The same loads on another scale: no decision may depend on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fssdp/placement/loads.hpp"

namespace support {

/// Factors for loads of which `most` is the largest: the last one goes to the end of 64 bits.
[[nodiscard]] inline std::vector<std::uint64_t> scales(std::uint64_t most) {
  auto const last = std::numeric_limits<std::uint64_t>::max() / std::max(most, std::uint64_t{1});
  return {std::min(last, std::uint64_t{3}), std::min(last, std::uint64_t{1} << 20), last};
}
[[nodiscard]] inline std::vector<std::uint64_t> scales(fssdp::expert_loads const& loads) {
  return scales(std::ranges::max(loads));
}
[[nodiscard]] inline std::vector<std::uint64_t> scales(
    std::span<fssdp::expert_loads const> layers) {
  auto most = std::uint64_t{0};
  for (auto const& loads : layers) most = std::max(most, std::ranges::max(loads));
  return scales(most);
}

[[nodiscard]] inline fssdp::expert_loads scaled(fssdp::expert_loads loads, std::uint64_t factor) {
  for (auto& load : loads) load *= factor;
  return loads;
}
[[nodiscard]] inline std::vector<fssdp::expert_loads> scaled(
    std::vector<fssdp::expert_loads> layers, std::uint64_t factor) {
  for (auto& loads : layers) loads = scaled(loads, factor);
  return layers;
}

}  // namespace support
