// SPDX-License-Identifier: Apache-2.0
/// Expert parallelism (EP): no replicas.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/solver/placement_solver.hpp"

namespace fssdp {

/// Every expert at its owner alone, as in EP. Nothing moves unless experts are sliced.
struct owners_only {
  /// @throws argument_error if there are not as many loads as experts
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("owners_only", loads, layout.experts());
    return placement{layout};
  }
};

static_assert(placement_solver<owners_only>);

}  // namespace fssdp
