// SPDX-License-Identifier: Apache-2.0
/// A reference to a function that is owned elsewhere.
#include "fssdp/core/function_ref.hpp"

#include <string>
#include <type_traits>
#include <utility>

#include "catch.hpp"

using fssdp::detail::function_ref;

static_assert(!std::is_constructible_v<function_ref<int(int)>, std::string>);
static_assert(!std::is_constructible_v<function_ref<int(int)>, int (*)(std::string)>);
static_assert(!std::is_default_constructible_v<function_ref<void()>>);

namespace {

[[nodiscard]] int twice(function_ref<int(int)> of, int value) { return of(of(value)); }
[[nodiscard]] int add_one(int value) { return value + 1; }

}  // namespace

TEST_CASE("a function_ref calls what it was made from, and copies nothing") {
  auto calls = 0;
  auto count = [&calls](int value) mutable { return ++calls, value * 3; };
  REQUIRE(twice(count, 2) == 18);
  REQUIRE(calls == 2);
  auto const unchanging = [](int value) { return value - 1; };
  REQUIRE(twice(unchanging, 2) == 0);
  REQUIRE(twice(add_one, 2) == 4);
  REQUIRE(twice([](int value) { return -value; }, 5) == 5);
}

TEST_CASE("a copy of a function_ref calls the same function, arguments pass through as they are") {
  auto text = std::string{};
  auto const take = [&text](std::string&& given) { text = std::move(given); };
  auto const first = function_ref<void(std::string &&)>{take};
  auto const copy = first;
  copy("moved");
  REQUIRE(text == "moved");
}
