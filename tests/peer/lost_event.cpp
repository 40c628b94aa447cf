// SPDX-License-Identifier: Apache-2.0
/// A stream that does not wait for an event reads or writes too early: the test detects that.
/// programs/lost_event.cpp shows that the thread sanitizer finds it.
#include "peer/lost_event.hpp"
#include "catch.hpp"
#include "support/needs.hpp"

using peer_tests::loser;
using peer_tests::received;

TEST_CASE("a late stream changes nothing between devices of one process") {
  for (auto const late : {0, 1}) REQUIRE(received(loser::none, late) == 1);
}

TEST_CASE("a receiver that does not wait for its sender reads what was there before") {
  if (auto const lacks = support::lacks_tolerance_of_races(); !lacks.empty())
    return skip_test(lacks);
  REQUIRE(received(loser::receiver, 0) == 0);
}
TEST_CASE("a sender that does not wait for its receiver has its memory read too late") {
  if (auto const lacks = support::lacks_tolerance_of_races(); !lacks.empty())
    return skip_test(lacks);
  REQUIRE(received(loser::sender, 1) == 2);
}
