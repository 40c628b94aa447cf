// SPDX-License-Identifier: Apache-2.0
/// The types of the tensors of one expert.
#pragma once

#include <cstddef>

#include "fssdp/core/dtype.hpp"

namespace fssdp {

/// A tensor of a whole expert: its number of elements and its types.
struct tensor_types {
  std::size_t elements = 0;
  dtype weight = dtype::fp32;  ///< at their owners
  dtype replica = weight;      ///< where they are used
  dtype partial = replica;     ///< of partial gradients
};

}  // namespace fssdp
