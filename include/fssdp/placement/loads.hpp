// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// Tokens of each expert, over all ranks: [experts].
using expert_loads = std::vector<std::uint64_t>;

namespace detail {

/// The sum of two loads of an expert.
/// @throws argument_error if it is 2^64 or more
[[nodiscard]] std::uint64_t add_loads(char const* caller, std::size_t expert, std::uint64_t a,
                                      std::uint64_t b);

}  // namespace detail

/// All experts, by (load descending, id ascending).
[[nodiscard]] std::vector<expert_id> by_load(std::span<std::uint64_t const> of);

/// The largest part over the mean: 1 is perfect balance; also 1 if all parts are zero.
[[nodiscard]] double max_over_mean(std::span<std::uint64_t const> of);

/// The share of tokens that go to other experts than before, from 0 to 1, independent of the
/// totals: half the sum of the absolute differences of the experts' shares. 1 if only one of the
/// two is zero.
/// @throws argument_error if the numbers of experts differ
[[nodiscard]] double load_change(std::span<std::uint64_t const> before,
                                 std::span<std::uint64_t const> now);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/placement/loads_inl.hpp"
#endif
