// SPDX-License-Identifier: Apache-2.0
/// Sizes in bytes, checked for overflow.
#pragma once

#include <cstddef>

namespace fssdp::detail {

/// slots * elements * element_bytes.
/// @throws argument_error if that is more than half of the range of std::size_t, as results from
///         negative numbers
[[nodiscard]] std::size_t unpadded_bytes(std::size_t slots, std::size_t elements,
                                         std::size_t element_bytes);
/// The same, rounded up to a multiple of a cache line.
[[nodiscard]] std::size_t byte_count(std::size_t slots, std::size_t elements,
                                     std::size_t element_bytes);

/// The sum of two sizes.
/// @throws argument_error as above
[[nodiscard]] std::size_t add_bytes(std::size_t a, std::size_t b);

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/memory/byte_count_inl.hpp"
#endif
