// SPDX-License-Identifier: Apache-2.0
/// Tries a law on many random instances.
#pragma once

#include <cstdint>

#include "catch.hpp"
#include "support/random_instance.hpp"

#ifndef FSSDP_LAW_INSTANCES
#define FSSDP_LAW_INSTANCES 10000
#endif

namespace support {

/// How many instances a law is tried on; the build sets fewer where each takes long.
inline constexpr int law_instances = FSSDP_LAW_INSTANCES;
/// The same where each runs a collective on all ranks, or several.
inline constexpr int some_instances = law_instances / 50 + 14;

/// Calls law(instance) for the seeds first, first + 1, ...; a failure prints the seed.
template <class Law>
void for_random_instances(int count, Law law, size_limits const& limits = {},
                          std::uint64_t first = 1) {
  for (auto seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    law(random_instance{seed, limits});
  }
}
template <class Law>
void for_random_instances(Law law) {
  for_random_instances(law_instances, law);
}

}  // namespace support
