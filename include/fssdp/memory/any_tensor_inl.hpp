// SPDX-License-Identifier: Apache-2.0
/// Rejects values that are not a dtype.
#pragma once

#include <cstddef>

#include "fssdp/core/dtype.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/any_tensor.hpp"

namespace fssdp::detail {

FSSDP_INLINE std::size_t element_size(dtype type) {
  require(is_valid(type), "dtype ", static_cast<int>(type), " of a tensor; expected 0 (",
          name_of(all_dtypes.front()), ") to ", all_dtypes.size() - 1, " (",
          name_of(all_dtypes.back()), ")");
  return bytes_of(type);
}

}  // namespace fssdp::detail
