// SPDX-License-Identifier: Apache-2.0
/// Fully sharded data parallelism (FSDP): every rank holds every expert while it computes.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/solver/placement_solver.hpp"

namespace fssdp {

/// Every expert on every rank, as in FSDP: a gather is a dense all-gather.
struct everywhere {
  /// @throws argument_error if there are not as many loads as experts
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("everywhere", loads, layout.experts());
    return (*this)(layout);
  }
  /// The same without loads, which it does not use.
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(Layout const& layout) const {
    auto where = placement{layout};
    for (auto const expert : first_n<expert_id>(layout.experts()))
      for (auto const rank : first_n<rank_id>(layout.ranks())) where.add(expert, rank);
    return where;
  }
};

static_assert(placement_solver<everywhere>);

}  // namespace fssdp
