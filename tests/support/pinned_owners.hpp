// SPDX-License-Identifier: Apache-2.0
/// The law that what owners have may lie in pinned memory of the host, for ranks with devices.
#pragma once

#include <memory_resource>
#include <string>
#include <vector>

#include "fssdp/comm/cuda/cuda_pinned_memory.hpp"
#include "gpu_double/gpu_double.hpp"
#include "support/device_bits.hpp"
#include "support/laws.hpp"

namespace support {

/// Gathers from pinned memory and reductions into it leave the bits that devices leave.
/// @param results_of calls work(comm) on so many ranks and gives what it returned: [rank]
template <class ResultsOf>
void check_pinned_owners(ResultsOf results_of) {
  gpu_double::reset({.only_device_memory = true});
  auto pinned = fssdp::cuda_pinned_memory{};
  auto const bits = [&](random_instance const& of, std::pmr::memory_resource* owned) {
    return results_of(of.plan.ranks(), [&](auto& comm) { return device_bits(comm, of, owned); });
  };
  auto const law = [&](random_instance const& of) {
    REQUIRE(bits(of, &pinned) == bits(of, nullptr));
  };
  for_random_instances(some_instances / 2, law, {.ranks = 6, .nodes = 3, .experts = 16});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

}  // namespace support
