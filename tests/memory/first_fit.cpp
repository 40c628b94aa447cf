// SPDX-License-Identifier: Apache-2.0
/// Offsets in memory that is used again: blocks never overlap, gaps are filled and joined.
#include "fssdp/memory/first_fit.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"

TEST_CASE("blocks take the lowest gap, and gaps side by side become one") {
  auto memory = fssdp::detail::first_fit{};
  CHECK(memory.most() == 0);
  CHECK(memory.allocate(64) == 0);
  CHECK(memory.allocate(65) == 64);  // two lines
  CHECK(memory.allocate(1) == 192);
  CHECK(memory.most() == 256);
  memory.free(0, 64);
  CHECK(memory.allocate(128) == 256);
  memory.free(64, 65);
  CHECK(memory.allocate(192) == 0);
  memory.free(192, 1);
  memory.free(256, 128);
  CHECK(memory.allocate(1000) == 192);
  CHECK(memory.most() == 1216);
}

TEST_CASE("blocks of any sizes never overlap, and all memory comes back") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto draw = support::dice{seed};
    auto memory = fssdp::detail::first_fit{};
    auto live = std::vector<std::pair<std::size_t, std::size_t>>{};
    auto overlaps = 0;
    for (int turn = 0; turn < 100; ++turn) {
      if (live.empty() || draw.chance(60)) {
        auto const bytes = static_cast<std::size_t>(draw.between(1, 300));
        auto const at = memory.allocate(bytes);
        for (auto const& other : live)
          overlaps += at < other.first + other.second && other.first < at + bytes ? 1 : 0;
        live.emplace_back(at, bytes);
      } else {
        draw.shuffle(live);
        memory.free(live.back().first, live.back().second);
        live.pop_back();
      }
    }
    for (auto const& block : live) memory.free(block.first, block.second);
    CHECK(overlaps == 0);
    CHECK(memory.allocate(1'000'000) == 0);
  }
}
