// SPDX-License-Identifier: Apache-2.0
/// The tensors of one expert, before there is memory for them.
#pragma once

#include <cstddef>

#include "fssdp/core/dtype.hpp"

namespace fssdp {

/// A tensor of a whole expert: how many elements it has, and of which type.
struct tensor_types {
  std::size_t elements = 0;
  dtype weight = dtype::fp32;  ///< at their owners
  dtype replica = weight;      ///< where they are used
  dtype partial = replica;     ///< of partial gradients
};

}  // namespace fssdp
