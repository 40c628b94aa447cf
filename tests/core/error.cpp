// SPDX-License-Identifier: Apache-2.0
/// Exceptions: one root, and a transport error knows who caused it.
#include "fssdp/core/error.hpp"

#include <locale>
#include <new>
#include <stdexcept>
#include <string>

#include "catch.hpp"

static_assert(std::is_base_of_v<std::runtime_error, fssdp::error>);
static_assert(std::is_base_of_v<fssdp::error, fssdp::argument_error>);
static_assert(std::is_base_of_v<fssdp::error, fssdp::plan_error>);
static_assert(std::is_base_of_v<fssdp::error, fssdp::poisoned_stream>);
static_assert(std::is_base_of_v<fssdp::error, fssdp::transport_error>);
static_assert(std::is_base_of_v<fssdp::error, fssdp::out_of_memory>);
static_assert(!std::is_base_of_v<fssdp::transport_error, fssdp::out_of_memory>);
static_assert(!std::is_base_of_v<std::bad_alloc, fssdp::out_of_memory>);
static_assert(std::is_base_of_v<fssdp::transport_error, fssdp::peer_failed>);
static_assert(std::is_base_of_v<fssdp::transport_error, fssdp::deadline_exceeded>);
static_assert(std::is_base_of_v<fssdp::transport_error, fssdp::ranks_disagree>);

TEST_CASE("a transport error names the rank that caused it") {
  auto const error = fssdp::peer_failed{fssdp::rank_id{3}, "gone"};
  REQUIRE(error.failed_rank() == fssdp::rank_id{3});
  REQUIRE(std::string{error.what()} == "gone");
}

TEST_CASE("out_of_memory says who requested how much, and where") {
  auto const error = fssdp::out_of_memory{fssdp::rank_id{3}, 1, 4096, "too much"};
  REQUIRE(error.rank() == fssdp::rank_id{3});
  REQUIRE(error.device() == 1);
  REQUIRE(error.bytes() == 4096);
  REQUIRE(std::string{error.what()} == "too much");
}

TEST_CASE("a check throws its parts as one text") {
  REQUIRE_NOTHROW(fssdp::detail::require(true, "never read"));
  REQUIRE_THROWS_AS(fssdp::detail::require(false, "x"), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::detail::require(false, "rank ", fssdp::rank_id{2}, " of ", 2),
                      "rank 2 of 2");
}

namespace {
struct thousands : std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};
}  // namespace

TEST_CASE("numbers in texts do not follow the user's locale") {
  auto const before = std::locale::global(std::locale{std::locale::classic(), new thousands});
  auto const text = fssdp::detail::text("byte ", 1'234'567);
  std::locale::global(before);
  REQUIRE(text == "byte 1234567");
}

TEST_CASE("any exception has a text") {
  REQUIRE(fssdp::detail::what(std::make_exception_ptr(std::logic_error{"why"})) == "why");
  REQUIRE(fssdp::detail::what(std::make_exception_ptr(42)) == "an exception of unknown type");
}
