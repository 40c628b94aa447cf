// SPDX-License-Identifier: Apache-2.0
/// An arena of slots: ranges are taken where they fit first, and never more than there is.
#include "fssdp/runtime/slot_pool.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/dice.hpp"

using fssdp::slot_range;
using fssdp::detail::slot_pool;
using fssdp::detail::tensor_list;

namespace {

/// Two tensors.
[[nodiscard]] tensor_list shapes(fssdp::dtype type = fssdp::dtype::fp32) {
  constexpr auto elements = std::array<std::size_t, 2>{5, 3};
  return {elements, type};
}

}  // namespace

TEST_CASE("ranges are taken where they fit first") {
  auto pool = slot_pool{10, shapes()};
  auto const a = pool.take(4);
  auto const b = pool.take(3);
  auto const c = pool.take(2);
  REQUIRE(a == slot_range{0, 4});
  REQUIRE(b == slot_range{4, 3});
  REQUIRE(c == slot_range{7, 2});
  REQUIRE(pool.longest() == 1);
  REQUIRE_FALSE(pool.take(2).has_value());
  pool.give_back(*b);
  REQUIRE(pool.longest() == 3);
  REQUIRE(pool.take(1) == slot_range{4, 1});
  REQUIRE(pool.take(3) == std::nullopt);
  pool.give_back(*a);
  REQUIRE(pool.take(4) == slot_range{0, 4});
  REQUIRE(pool.used() == 7);
  REQUIRE(pool.peak() == 9);
  pool.forget_peak();
  REQUIRE(pool.peak() == 7);
}

TEST_CASE("an empty range takes nothing, wherever it is taken") {
  auto pool = slot_pool{0, shapes()};
  auto const nothing = pool.take(0);
  REQUIRE(nothing == slot_range{});
  REQUIRE(pool.longest() == 0);
  REQUIRE_NOTHROW(pool.give_back(*nothing));
  REQUIRE(pool.tensors(*nothing)[0].slots == 0);
}

TEST_CASE("a range that was not taken cannot be given back") {
  auto pool = slot_pool{6, shapes()};
  auto const range = *pool.take(3);
  REQUIRE_THROWS_AS(pool.give_back({0, 2}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(pool.give_back({3, 2}), mentions("slots 3 to 4") && mentions("taken"));
  pool.give_back(range);
  REQUIRE_THROWS_AS(pool.give_back(range), fssdp::argument_error);
}

TEST_CASE("ranges that are taken share no memory, and all of it can be used") {
  auto pool = slot_pool{12, shapes()};
  auto draw = support::dice{7};
  auto taken = std::vector<slot_range>{};
  auto owner = std::vector<int>(12, -1);  // of each slot, by the number of the range
  auto wrong = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    if (!taken.empty() && draw.chance(45)) {
      auto const at = draw.between(0, static_cast<int>(taken.size()) - 1);
      auto const range = taken[static_cast<std::size_t>(at)];
      for (auto const& tensor : pool.tensors(range))  // still what was written
        for (std::size_t slot = 0; slot < range.count; ++slot)
          for (auto const value : tensor.as<float>()[slot])
            wrong += value == static_cast<float>(owner[range.first + slot]) ? 0 : 1;
      std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(range.first), range.count, -1);
      pool.give_back(range);
      taken[static_cast<std::size_t>(at)] = taken.back();
      taken.pop_back();
      continue;
    }
    auto gap = std::size_t{0};  // the longest, counted slot by slot
    for (std::size_t slot = 0, run = 0; slot < owner.size(); ++slot) {
      run = owner[slot] == -1 ? run + 1 : 0;
      gap = std::max(gap, run);
    }
    auto const count = static_cast<std::size_t>(draw.between(1, 5));
    wrong += pool.longest() == gap ? 0 : 1;
    auto const range = pool.take(count);
    wrong += range.has_value() == (count <= gap) ? 0 : 1;
    if (!range.has_value()) continue;
    for (std::size_t slot = 0; slot < count; ++slot) {
      wrong += owner[range->first + slot] == -1 ? 0 : 1;
      owner[range->first + slot] = turn;
    }
    for (auto const& tensor : pool.tensors(*range))
      for (std::size_t slot = 0; slot < count; ++slot)
        std::ranges::fill(tensor.as<float>()[slot], static_cast<float>(turn));
    taken.push_back(*range);
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("every tensor of a pool begins at a cache line, whatever the sizes") {
  auto const check = [](auto element, std::size_t slots) {
    using T = decltype(element);
    auto const sizes = std::array<std::size_t, 4>{5, 0, 3, 7};
    auto pool = slot_pool{slots, {sizes, fssdp::dtype_of<T>}};
    auto const buffer = fssdp::expert_buffer<T>{slots, sizes};
    REQUIRE(pool.bytes() == buffer.bytes());
    auto const tensors = pool.tensors(*pool.take(slots));
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      CAPTURE(slots, k);
      REQUIRE(tensors[k].elements == sizes[k]);
      REQUIRE(reinterpret_cast<std::uintptr_t>(tensors[k].data) % fssdp::detail::cache_line == 0);
      REQUIRE(tensors[k].as<T>().data - tensors[0].as<T>().data ==
              buffer.tensors()[k].data - buffer.tensors()[0].data);
    }
  };
  for (auto const slots : {std::size_t{1}, std::size_t{3}, std::size_t{11}}) {
    check(fssdp::fp8_e4m3{}, slots);
    check(fssdp::bf16{}, slots);
    check(float{}, slots);
    check(double{}, slots);
  }
}
