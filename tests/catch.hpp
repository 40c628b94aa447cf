// SPDX-License-Identifier: Apache-2.0
/// Catch2 for all tests, version 2 or 3.
#pragma once

#include <iostream>
#include <string>

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
using Catch::Approx;  // version 2 has it there by itself
#else
#include <catch2/catch.hpp>
#endif

/// A matcher for REQUIRE_THROWS_WITH: the text contains this part. The versions name theirs apart.
[[nodiscard]] inline auto mentions(std::string const& part) {
#if __has_include(<catch2/catch_test_macros.hpp>)
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

/// Ends a test that cannot be made here, and says why: ctest calls it skipped, not passed.
///
///     if (!there_is_what_it_needs()) return skip_test("this machine has no ...");
inline void skip_test(std::string const& why) {
  std::cout << "this test is skipped: " << why << std::endl;
  SUCCEED("skipped");
}
