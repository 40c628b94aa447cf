// SPDX-License-Identifier: Apache-2.0
/// Sizes in bytes: padded, and refused before they wrap around.
#include "fssdp/memory/byte_count.hpp"

#include <cstddef>
#include <limits>
#include <string>

#include "catch.hpp"
#include "fssdp/core/error.hpp"

using fssdp::detail::add_bytes;
using fssdp::detail::byte_count;

namespace {

constexpr auto largest = std::numeric_limits<std::size_t>::max();

}  // namespace

TEST_CASE("bytes are slots times elements times their size, padded to a cache line") {
  REQUIRE(byte_count(0, 5, 4) == 0);
  REQUIRE(byte_count(5, 0, 4) == 0);
  REQUIRE(byte_count(1, 1, 1) == 64);
  REQUIRE(byte_count(4, 16, 1) == 64);
  REQUIRE(byte_count(3, 7, 4) == 128);
  REQUIRE(byte_count(1, std::size_t{1} << 60, 4) == std::size_t{1} << 62);
}

TEST_CASE("a size that overflows is an error that names the numbers") {
  auto const refused = [](std::size_t slots, std::size_t elements, std::size_t bytes) {
    CAPTURE(slots, elements, bytes);
    REQUIRE_THROWS_AS(byte_count(slots, elements, bytes), fssdp::argument_error);
    REQUIRE_THROWS_WITH(byte_count(slots, elements, bytes),
                        mentions(std::to_string(slots) + " slots") &&
                            mentions(std::to_string(elements) + " elements") &&
                            mentions(std::to_string(bytes) + " bytes") && mentions("expected"));
  };
  refused(static_cast<std::size_t>(-1), 1, 1);
  refused(1, static_cast<std::size_t>(-1), 1);
  refused(static_cast<std::size_t>(-3), 5, 8);
  refused(std::size_t{1} << 32, std::size_t{1} << 32, 1);  // their product is 0 in 64 bits
  refused(std::size_t{1} << 31, std::size_t{1} << 31, 2);
  refused(3, largest / 4, 4);
  refused(1, largest / 2, 1);  // fits, but not with its padding
}

TEST_CASE("zero slots of any size take no bytes") {
  REQUIRE(byte_count(0, largest, 8) == 0);
  REQUIRE(byte_count(largest, 0, 8) == 0);
}

TEST_CASE("a sum of sizes that overflows is an error that names both") {
  REQUIRE(add_bytes(0, 0) == 0);
  REQUIRE(add_bytes(64, 128) == 192);
  REQUIRE(add_bytes(largest / 2, 0) == largest / 2);
  auto const refused = [](std::size_t a, std::size_t b) {
    REQUIRE_THROWS_AS(add_bytes(a, b), fssdp::argument_error);
    REQUIRE_THROWS_WITH(add_bytes(a, b), mentions("memory for " + std::to_string(a) + " and " +
                                                  std::to_string(b) + " bytes"));
  };
  refused(largest / 2, 1);
  refused(1, largest / 2);
  refused(largest, 0);
  refused(largest, largest);
}
