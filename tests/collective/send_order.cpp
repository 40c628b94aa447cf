// SPDX-License-Identifier: Apache-2.0
/// What a reduction sends goes in the order of its plan, at each port by itself.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/reduction_pass.hpp"

using fssdp::detail::send_order;

namespace {

[[nodiscard]] std::vector<std::size_t> what_goes(send_order& order) {
  auto gone = std::vector<std::size_t>{};
  order.advance([&](std::size_t message) { gone.push_back(message); });
  return gone;
}

}  // namespace

TEST_CASE("a message waits for those before it at its port, and for no others") {
  auto memory = std::array<std::uint8_t, 6>{9, 9, 9, 9, 9, 9};
  auto order = send_order{memory};
  for (std::size_t const inside : {1U, 2U, 5U}) order.set_inside(inside);
  CHECK(what_goes(order).empty());
  order.set_ready(2);
  order.set_ready(3);
  CHECK(what_goes(order).empty());
  order.set_ready(1);
  CHECK(what_goes(order) == std::vector<std::size_t>{1, 2});
  order.set_ready(5);
  CHECK(what_goes(order) == std::vector<std::size_t>{5});
  order.set_ready(0);
  CHECK(what_goes(order) == std::vector<std::size_t>{0, 3});
  order.set_ready(4);
  CHECK(what_goes(order) == std::vector<std::size_t>{4});
  CHECK(what_goes(order).empty());
}

TEST_CASE("sends before the first sum are known") {
  auto memory = std::array<std::uint8_t, 3>{};
  auto order = send_order{memory};
  order.set_ready(0);
  order.advance([&](std::size_t message) { order.set_gone(message); });
  CHECK(order.has_gone(0));
  CHECK(!order.has_gone(1));
  CHECK(!order.has_gone(2));
}
