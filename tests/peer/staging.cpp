// SPDX-License-Identifier: Apache-2.0
/// What passes through the two pinned buffers of a device arrives as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/cuda/cuda_staging.hpp"
#include "fssdp/memory/staged_copies.hpp"
#include "peer/device_bytes.hpp"
#include "support/dice.hpp"

namespace {

[[nodiscard]] std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  auto bytes = std::vector<std::byte>(count);
  for (auto& each : bytes) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    each = static_cast<std::byte>(seed >> 56U);
  }
  return bytes;
}

/// Cuts memory into parts of random sizes up to so many bytes.
[[nodiscard]] std::vector<std::size_t> random_sizes(std::size_t bytes, int most,
                                                    support::dice& draw) {
  auto sizes = std::vector<std::size_t>{};
  while (bytes != 0) {
    sizes.push_back(std::min(bytes, static_cast<std::size_t>(draw.between(1, most))));
    bytes -= sizes.back();
  }
  return sizes;
}

}  // namespace

TEST_CASE("blocks of a device's memory are read through two pinned buffers") {
  gpu_double::reset({.only_device_memory = true});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const there = random_bytes(static_cast<std::size_t>(draw.between(1, 300'000)), seed);
    auto const stream = fssdp::make_cuda_stream();
    auto const device = peer_tests::device_bytes{fssdp::cuda_memory{there.size()}, stream.get()};
    device.set(there);
    auto staging = fssdp::cuda_staging{stream.get(), 10'000};
    auto blocks = std::vector<fssdp::detail::source_block>{};
    auto expected = std::vector<std::byte>{};
    auto first = std::size_t{0};
    for (auto const size : random_sizes(there.size(), 10'000, draw)) {
      auto const part = std::span{there}.subspan(first, size);
      auto const is_left_out = draw.chance(20);  // what follows does not lie side by side
      if (!is_left_out) {
        blocks.push_back({device.memory.bytes().subspan(first, size), &staging});
        expected.insert(expected.end(), part.begin(), part.end());
      }
      first += size;
    }
    auto got = std::vector<std::byte>{};
    fssdp::detail::for_each_block(
        blocks,
        [&](std::span<std::byte const> block) {
          got.insert(got.end(), block.begin(), block.end());
        },
        [] {});
    REQUIRE(std::ranges::equal(got, expected));
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("parts of a device's memory are filled through two pinned buffers") {
  gpu_double::reset({.only_device_memory = true});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const here = random_bytes(static_cast<std::size_t>(draw.between(1, 300'000)), seed);
    auto const stream = fssdp::make_cuda_stream();
    auto const device = peer_tests::device_bytes{fssdp::cuda_memory{here.size()}, stream.get()};
    auto staging = fssdp::cuda_staging{stream.get(), 10'000};
    auto target = fssdp::detail::staged_target{&staging};
    auto first = std::size_t{0};
    for (auto const size : random_sizes(here.size(), 10'000, draw)) {
      auto const part = device.memory.bytes().subspan(first, size);
      std::ranges::copy(std::span{here}.subspan(first, size), target.room_for(part).begin());
      target.filled(part);
      first += size;
    }
    target.finish();
    REQUIRE(device.get() == here);
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
