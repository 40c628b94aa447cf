// SPDX-License-Identifier: Apache-2.0
// Stands for tests/gpu/overlap/cublas_products.cpp: products by loops, in the order of the stream.
#include <cstddef>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "gpu/overlap/products.hpp"
#include "gpu_double/gpu_double.hpp"

namespace {

void multiply(overlap::product const& of) {
  auto const rows = static_cast<std::size_t>(of.rows);
  auto const width = static_cast<std::size_t>(of.width);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j) {
      auto sum = 0.0F;
      for (std::size_t k = 0; k < width; ++k)
        sum += static_cast<float>(of.x[i * width + k]) * static_cast<float>(of.w[k * width + j]);
      of.out[i * width + j] = sum;
    }
}

}  // namespace

std::function<void(overlap::product const&)> overlap::products_on(cudaStream_t stream, int) {
  return [stream](product const& of) {
    for (void const* const used : {static_cast<void const*>(of.x), static_cast<void const*>(of.w),
                                   static_cast<void const*>(of.out)})
      gpu_double::check_access(stream, used);
    fssdp::detail::cuda_require(gpu_double::enqueue(stream, [of] { multiply(of); }), {}, "enqueue");
  };
}
