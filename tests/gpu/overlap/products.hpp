// SPDX-License-Identifier: Apache-2.0
/// The matrix products that gathers are hidden behind.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "fssdp/element/bf16.hpp"

namespace overlap {

/// out = x w, all row by row.
struct product {
  int rows;
  int width;
  fssdp::bf16 const* x;  ///< [rows, width]
  fssdp::bf16 const* w;  ///< [width, width]
  float* out;            ///< [rows, width]
};

/// Enqueues products on a stream: by cuBLAS on a device, by loops on the double.
/// @param spare  multiprocessors that they leave free
/// @pre the stream outlives it
[[nodiscard]] std::function<void(product const&)> products_on(cudaStream_t stream, int spare = 0);

}  // namespace overlap
