// SPDX-License-Identifier: Apache-2.0
/// What owners have may lie in pinned memory of the host: over NCCL devices leave the same bits.
#include <memory_resource>

#include "catch.hpp"
#include "fssdp/comm/cuda_pinned_memory.hpp"
#include "nccl/devices.hpp"
#include "support/device_bits.hpp"
#include "support/laws.hpp"

TEST_CASE("gathers from pinned memory and reductions into it leave the bits of devices") {
  gpu_double::reset({.only_device_memory = true});
  auto pinned = fssdp::cuda_pinned_memory{};
  auto const bits = [](support::random_instance const& of, std::pmr::memory_resource* owned) {
    return nccl_tests::results_of({.ranks = of.plan.ranks()}, [&](auto& comm) {
      return support::device_bits(comm, of, owned);
    });
  };
  auto const law = [&](support::random_instance const& of) {
    REQUIRE(bits(of, &pinned) == bits(of, nullptr));
  };
  support::for_random_instances(support::some_instances / 2, law,
                                {.ranks = 6, .nodes = 3, .experts = 16});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
