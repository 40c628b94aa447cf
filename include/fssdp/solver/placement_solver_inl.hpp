// SPDX-License-Identifier: Apache-2.0
/// The argument check of all placement solvers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/solver/placement_solver.hpp"

namespace fssdp::detail {

FSSDP_INLINE void require_loads(char const* solver, std::span<std::uint64_t const> loads,
                                int experts) {
  require(loads.size() == static_cast<std::size_t>(experts), solver, ": loads of ", loads.size(),
          " experts; expected ", experts);
}

}  // namespace fssdp::detail
