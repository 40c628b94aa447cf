// SPDX-License-Identifier: Apache-2.0
/// Every rank gets the token counts of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/routing/token_counts.hpp"

namespace fssdp {

/// The counts of all ranks, from those of this rank: [experts] on every rank -> [ranks, experts].
/// Needed once per layer and micro-batch; returns when they are known (it synchronizes).
/// @cost size - 1 messages of `experts` counts out and in; one allocation
/// @throws transport errors
template <communicator Comm>
[[nodiscard]] token_counts gather_counts(Comm& comm, std::span<std::uint64_t const> mine) {
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(comm.size()) * mine.size());
  all_gather(comm, mine, all);
  return {comm.size(), static_cast<int>(mine.size()), std::move(all)};
}

}  // namespace fssdp
