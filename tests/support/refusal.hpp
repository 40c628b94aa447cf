// SPDX-License-Identifier: Apache-2.0
/// The error that a rank gets for a wrong call, and whether it sent anything.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"

namespace support {

/// The text with which a call is refused, "" if it is not, and how many exchanges it made.
struct refusal {
  std::string text;
  std::uint64_t exchanges = 0;
};

/// What becomes of call(comm) on rank 0 of two.
template <class Call>
[[nodiscard]] refusal refusal_of(Call call) {
  auto result = refusal{};
  fssdp::thread_world{2}.run([&](fssdp::thread_communicator& comm) {
    if (comm.rank() != fssdp::rank_id{0}) return;
    auto counted = fssdp::counting{comm};
    try {
      call(counted);
    } catch (fssdp::argument_error const& error) {
      result.text = error.what();
    }
    result.exchanges = counted.counts().exchanges;
  });
  return result;
}

/// Requires that call(comm) is refused with all these words, before anything is sent.
template <class Call, std::convertible_to<char const*>... Words>
void refuses(Call call, Words... words) {
  auto const result = refusal_of(call);
  for (char const* const part : {words...}) REQUIRE_THAT(result.text, mentions(part));
  REQUIRE(result.exchanges == 0);
}

}  // namespace support
