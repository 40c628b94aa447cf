// SPDX-License-Identifier: Apache-2.0
/// Checked multiplication and addition.
#pragma once

#include <cstddef>
#include <limits>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/byte_count.hpp"

namespace fssdp::detail {

FSSDP_INLINE std::size_t unpadded_bytes(std::size_t slots, std::size_t elements,
                                        std::size_t element_bytes) {
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2 - cache_line;
  auto const fits = slots == 0 || elements == 0 || elements <= most / slots / element_bytes;
  require(fits, "memory for ", slots, " slots of ", elements, " elements of ", element_bytes,
          " bytes; expected at most ", most, " bytes in all");
  return slots * elements * element_bytes;
}

FSSDP_INLINE std::size_t byte_count(std::size_t slots, std::size_t elements,
                                    std::size_t element_bytes) {
  return padded(unpadded_bytes(slots, elements, element_bytes));
}

FSSDP_INLINE std::size_t add_bytes(std::size_t a, std::size_t b) {
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2;
  require(a <= most && b <= most - a, "memory for ", a, " and ", b, " bytes; expected at most ",
          most, " bytes in all");
  return a + b;
}

}  // namespace fssdp::detail
