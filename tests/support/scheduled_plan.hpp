// SPDX-License-Identifier: Apache-2.0
/// Plans of random instances that pass pieces on.
#pragma once

#include <cstddef>

#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "support/dice.hpp"
#include "support/random_instance.hpp"

namespace support {

/// The plan of an instance, scheduled, with one to three pieces for each chunk, and with ranks that
/// relay or without: as if chunks were large, since small ones go straight from their owners.
[[nodiscard]] inline fssdp::transfer_plan scheduled_plan(random_instance const& of, dice& draw) {
  auto const bytes = large_chunk_bytes;
  auto const pieces = static_cast<std::size_t>(draw.between(1, 3));
  return schedule(make_plan(of.layout, of.where, of.topo), bytes,
                  {.piece_bytes = (bytes + pieces - 1) / pieces,
                   .relay_bytes = draw.chance(70) ? bytes * 1000 : 0});
}

/// A random instance with such a plan, whose chunks are often large enough for pieces.
[[nodiscard]] inline random_instance relayed_instance(std::uint64_t seed,
                                                      size_limits const& limits) {
  auto draw = dice{seed + 5'000'000};
  auto of = random_instance{seed, limits};
  if (draw.chance(50))
    for (auto& size : of.elements) size = static_cast<std::size_t>(draw.between(1, 1500));
  of.plan = scheduled_plan(of, draw);
  return of;
}

}  // namespace support
