// SPDX-License-Identifier: Apache-2.0
/// Copies in tiles: every byte once, whatever the sizes, the addresses and the number of threads.
#include "fssdp/element/device_copies.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"

namespace {

/// What a device would do: every tile by so many threads.
void run_tiles_of(fssdp::device_copies const& copies, std::size_t threads) {
  fssdp::detail::with_kernel(copies, [&](auto const& kernel) {
    for (std::size_t tile = 0; tile < kernel.tiles(); ++tile)
      for (std::size_t thread = 0; thread < threads; ++thread) kernel(tile, thread, threads);
  });
}

}  // namespace

TEST_CASE("device_copies copy the listed bytes and nothing else") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const step = std::array{1, 4, 16}[static_cast<std::size_t>(draw.between(0, 2))];
    auto copies = fssdp::device_copies{};
    auto const is_many = draw.between(0, 2) == 0;  // of which each is short
    copies.count = static_cast<std::size_t>(is_many ? draw.between(13, 128) : draw.between(0, 12));
    auto from = std::vector<std::byte>(600'000);
    for (auto& byte : from) byte = std::byte(draw.between(1, 255));
    auto to = std::vector<std::byte>(from.size());
    auto expected = to;
    auto at = std::size_t{0};
    for (std::size_t i = 0; i < copies.count; ++i) {
      auto const bytes = static_cast<std::size_t>(
          draw.between(0, is_many ? 4'000 : draw.between(0, 1) * 45'000 + 40));
      auto const unit = static_cast<std::size_t>(step);
      at = (at + unit - 1) / unit * unit + unit * static_cast<std::size_t>(draw.between(0, 3));
      auto const there = static_cast<std::size_t>(step * draw.between(0, 500));
      copies.copies[i] = {to.data() + at, from.data() + there, bytes};
      std::copy_n(from.begin() + static_cast<long>(there), bytes,
                  expected.begin() + static_cast<long>(at));
      at += bytes;
    }
    run_tiles_of(copies, std::array<std::size_t, 3>{1, 7, 256}[seed % 3]);
    REQUIRE((to == expected));
  }
}

TEST_CASE("copies and their tiles fit into the arguments of a kernel") {
  using largest = fssdp::detail::copy_kernel<fssdp::device_copies::most>;
  STATIC_REQUIRE(sizeof(largest) + sizeof(std::size_t) <= 4096);
}
