// SPDX-License-Identifier: Apache-2.0
/// A checksum is the XXH3 of its bytes, by whatever instructions: files outlive machines.
#include "fssdp/checkpoint/checksum.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"

TEST_CASE("checksums of any length are those of xxhsum") {
  auto const sums =
      std::vector<std::pair<std::size_t, char const*>>{{0, "2d06800538d394c2"},
                                                       {100, "2868604799ba93c9"},
                                                       {1000, "6cefd16c7917b48d"},
                                                       {(1U << 20U) + 3, "dd91e4a768f21c96"}};
  for (auto const& [length, sum] : sums) {
    auto text = std::string(length, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i % 251);
    CAPTURE(length);
    REQUIRE(fssdp::detail::to_hex(fssdp::checksum(text)) == sum);
    REQUIRE(fssdp::detail::from_hex(sum) == fssdp::checksum(text));
  }
}
