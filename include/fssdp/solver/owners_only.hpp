// SPDX-License-Identifier: Apache-2.0
/// Expert parallelism: nothing is replicated; whole experts do not move.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/solver/placement_solver.hpp"

namespace fssdp {

/// Every expert with its owner alone. One end of the dial: EP.
struct owners_only {
  /// @throws argument_error on another number of loads than experts.
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("owners_only", loads, layout.experts());
    return placement{layout};
  }
};

static_assert(placement_solver<owners_only>);

}  // namespace fssdp
