// SPDX-License-Identifier: Apache-2.0
/// Tags that match exactly the messages that belong together.
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/back_end.hpp"

using fssdp::batch_label;
using fssdp::message_tag;

TEST_CASE("tags tell plans, rounds and sizes apart") {
  for (auto const most : {std::numeric_limits<std::uint64_t>::max(),
                          std::uint64_t{std::numeric_limits<int>::max()}}) {
    auto tags = std::set<std::uint64_t>{};
    auto made = std::size_t{0};
    for (std::uint64_t plan = 0; plan < 10; ++plan)
      for (int round = 0; round < 10; ++round)
        for (std::size_t bytes = 0; bytes < 10; ++bytes, ++made)
          tags.insert(message_tag({plan, round}, bytes, most));
    REQUIRE(tags.size() == made);
    REQUIRE(*tags.rbegin() <= most);
  }
}

TEST_CASE("few tags are all used, and none above the largest") {
  for (auto const most : {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{32767}}) {
    auto tags = std::set<std::uint64_t>{};
    for (std::size_t bytes = 0; bytes < 20 * (most + 1); ++bytes)
      tags.insert(message_tag({7, 1}, bytes, most));
    REQUIRE(tags.size() == most + 1);
    REQUIRE(*tags.rbegin() == most);
  }
}

TEST_CASE("tags are the same on every machine") {
  REQUIRE(message_tag({}, 0) == 0xf0d1c151b2772717);
  REQUIRE(message_tag({0x0123456789abcdef, 3}, 4096) == 0x9363edd6b50047fb);
  REQUIRE(message_tag({0x0123456789abcdef, 3}, 4096, 65535) == 18427);
}
