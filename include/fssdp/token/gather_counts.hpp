// SPDX-License-Identifier: Apache-2.0
/// Gathers the token counts of all ranks on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/routing/token_counts.hpp"

namespace fssdp {

/// Gathers the counts of all ranks: [experts] of each rank -> [ranks, experts] on every rank.
/// Needed once per layer and micro-batch. Blocks until they are there (it synchronizes the
/// communicator).
/// @cost one exchange: size - 1 messages of `experts` counts sent, and as many received; one
///       allocation
/// @throws transport errors
template <communicator Comm>
[[nodiscard]] token_counts gather_counts(Comm& comm, std::span<std::uint64_t const> mine) {
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(comm.size()) * mine.size());
  all_gather(comm, mine, all);
  return {comm.size(), static_cast<int>(mine.size()), std::move(all)};
}

}  // namespace fssdp
