// SPDX-License-Identifier: Apache-2.0
/// Scratch memory grows, and never shrinks.
#include "fssdp/memory/scratch_memory.hpp"

#include <cstdint>
#include <utility>

#include "catch.hpp"

TEST_CASE("scratch is as large as asked, aligned, and stays where it is until it must grow") {
  auto scratch = fssdp::scratch_memory{};
  REQUIRE(scratch.bytes() == 0);
  REQUIRE(scratch.reserve(0).empty());
  auto const first = scratch.reserve(100);
  REQUIRE(first.size() == 100);
  REQUIRE(reinterpret_cast<std::uintptr_t>(first.data()) % 64 == 0);
  REQUIRE(scratch.reserve(40).data() == first.data());
  REQUIRE(scratch.reserve(40).size() == 40);
  REQUIRE(scratch.bytes() == 100);
  REQUIRE(scratch.reserve(1000).size() == 1000);
  REQUIRE(scratch.bytes() == 1000);
}

TEST_CASE("scratch that has been moved away can be reserved again") {
  auto first = fssdp::scratch_memory{};
  (void)first.reserve(100);
  auto const second = std::move(first);
  REQUIRE(second.bytes() == 100);
  first = {};
  REQUIRE(first.bytes() == 0);
  REQUIRE(first.reserve(50).data() != nullptr);
}
