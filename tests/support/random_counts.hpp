// SPDX-License-Identifier: Apache-2.0
/// Tokens for a random instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/routing/token_counts.hpp"
#include "support/random_instance.hpp"

namespace support {

/// A few tokens per rank and expert; some ranks have none at all.
[[nodiscard]] inline fssdp::token_counts random_counts(random_instance const& of,
                                                       std::uint64_t seed) {
  auto draw = dice{seed};
  auto values = std::vector<std::uint64_t>{};
  for (int rank = 0; rank < of.layout.ranks(); ++rank) {
    auto const most = draw.chance(20) ? 0 : draw.one_of(std::vector{1, 3, 20});
    for (int expert = 0; expert < of.layout.experts(); ++expert)
      values.push_back(static_cast<std::uint64_t>(draw.between(0, most)));
  }
  return {of.layout.ranks(), of.layout.experts(), values};
}

/// Few as above, or thousands, of which a few experts have most.
[[nodiscard]] inline fssdp::token_counts few_or_many_counts(random_instance const& of,
                                                            std::uint64_t seed) {
  auto const few = random_counts(of, seed);
  if (seed % 2 == 0) return few;
  auto values = std::vector(few.values().begin(), few.values().end());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *=
        (values[i] + seed % 5) * (i % static_cast<std::size_t>(few.experts()) < 3 ? 977 : 97);
  return {few.ranks(), few.experts(), values};
}

}  // namespace support
