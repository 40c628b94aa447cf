// SPDX-License-Identifier: Apache-2.0
/// Loads like those of a router: few experts have most of the tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fssdp/placement/loads.hpp"

/// Zipf: the n-th expert has 1/n of the first one's tokens. Which one is the first depends on the
/// layer; neighbours in load are not neighbours in number.
inline fssdp::expert_loads zipf_loads(std::size_t experts, std::size_t layer = 0) {
  constexpr auto most = std::uint64_t{1'000'000};
  constexpr auto stride = std::size_t{101};  // a prime: every place is hit once
  auto loads = fssdp::expert_loads(experts);
  for (std::size_t n = 0; n < experts; ++n)
    loads[(n * stride + 7 * layer) % experts] = most / (n + 1);
  return loads;
}
