// SPDX-License-Identifier: Apache-2.0
/// What collectives cost, counted, and what the plan says that they do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_instance.hpp"

namespace support {

struct cost {
  fssdp::exchange_counts counts;
  std::uint64_t copied = 0;
};

/// What collective(comm) costs each rank: [rank].
template <class Collective>
[[nodiscard]] std::vector<cost> cost_of(random_instance const& of, Collective collective) {
  return on_all_ranks(of.layout.ranks(), [&](fssdp::thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    collective(counted);
    return cost{counted.counts(), comm.copied_bytes()};
  });
}

/// What a rank sends and gets in one gather.
struct rank_traffic {
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t messages_in = 0;
  std::uint64_t bytes_in = 0;
};

/// A message per transfer and tensor: [rank].
/// @param bytes(transfer, elements) the size of one message
template <class Bytes>
[[nodiscard]] std::vector<rank_traffic> expected_traffic(random_instance const& of, Bytes bytes) {
  auto all = std::vector<rank_traffic>(static_cast<std::size_t>(of.layout.ranks()));
  for (auto const& t : of.plan.transfers())
    for (auto const size : of.elements) {
      auto const slice = fssdp::slice_extent{size, t.chunk.slice, of.layout.slices()};
      auto const piece = fssdp::piece_extent{slice.elements, t.piece, of.plan.pieces()};
      auto const message = std::uint64_t{bytes(t, piece.elements)};
      ++all[t.source.index()].messages_out;
      all[t.source.index()].bytes_out += message;
      ++all[t.destination.index()].messages_in;
      all[t.destination.index()].bytes_in += message;
    }
  return all;
}
/// The same for elements of one size.
[[nodiscard]] inline std::vector<rank_traffic> expected_traffic(random_instance const& of,
                                                                std::size_t element) {
  return expected_traffic(of,
                          [=](auto const&, std::size_t elements) { return elements * element; });
}

/// What is counted on a rank with this traffic in a gather that forwards.
[[nodiscard]] inline fssdp::exchange_counts gather_counts(random_instance const& of,
                                                          rank_traffic const& traffic) {
  return {.exchanges = of.plan.rounds() > 0 ? 1U : 0U,
          .messages_sent = traffic.messages_out,
          .bytes_sent = traffic.bytes_out,
          .messages_received = traffic.messages_in,
          .bytes_received = traffic.bytes_in};
}
/// The same in a reduction, the plan backwards, of memory that is lent.
[[nodiscard]] inline fssdp::exchange_counts reduction_counts(random_instance const& of,
                                                             rank_traffic const& traffic) {
  return {.exchanges = of.plan.rounds() > 0 ? 1U : 0U,
          .messages_sent = traffic.messages_in,
          .bytes_sent = traffic.bytes_in,
          .messages_received = traffic.messages_out,
          .bytes_received = traffic.bytes_out,
          .bytes_borrowed = traffic.bytes_out};
}

/// Whether the destination of a transfer passes the piece on; in a reduction it sends back a sum.
[[nodiscard]] inline bool passes_on(fssdp::transfer_plan const& plan, fssdp::transfer const& of) {
  return std::ranges::any_of(plan.transfers(), [&](fssdp::transfer const& other) {
    return other.what() == of.what() && other.source == of.destination;
  });
}

}  // namespace support
