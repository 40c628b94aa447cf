// SPDX-License-Identifier: Apache-2.0
/// The same calls over the wires of a thread_world: passed on, lent, copied.
#pragma once

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/on_all_ranks.hpp"

namespace support {

/// Whether two ways of exchanging moved the same bytes, the other one in no more messages. By
/// rounds there are more exchanges.
[[nodiscard]] inline bool no_more_messages(fssdp::exchange_counts const& than,
                                           fssdp::exchange_counts other) {
  auto const more =
      other.messages_sent > than.messages_sent || other.messages_received > than.messages_received;
  other.exchanges = than.exchanges;
  other.messages_sent = than.messages_sent;
  other.messages_received = than.messages_received;
  return !more && other == than;
}

/// Requires that bits_over(comm) is the same whether pieces are passed on as they come in, lent
/// round by round, or copied round by round; lent, the same bytes go in no more messages.
/// @return the bits: [rank]
template <class BitsOver>
std::vector<std::vector<std::uint64_t>> same_over_wires(fssdp::thread_world& world,
                                                        BitsOver bits_over) {
  auto counts = std::vector<fssdp::exchange_counts>(static_cast<std::size_t>(world.size()));
  auto const forwarded = on_all_ranks(world, [&](fssdp::thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto const bits = bits_over(counted);
    counts[comm.rank().index()] = counted.counts();
    return bits;
  });
  auto const lent = on_all_ranks(world, [&](fssdp::thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto rounds = lending_only{counted};
    auto bits = bits_over(rounds);
    if (!no_more_messages(counts[comm.rank().index()], counted.counts())) bits.push_back(1);
    return bits;
  });
  auto const copied = on_all_ranks(world, [&](fssdp::thread_communicator& comm) {
    auto bare = exchange_only{comm};
    return bits_over(bare);
  });
  REQUIRE(forwarded == lent);
  REQUIRE(forwarded == copied);
  return forwarded;
}

}  // namespace support
