// SPDX-License-Identifier: Apache-2.0
/// Matrix products of several experts at once, by cuBLAS (12.5 or later).
#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"

namespace cuda_layer {

/// A matrix of each expert that a rank holds, row by row on the device, or its transpose.
struct matrices {
  struct matrix {
    float* data;
    int rows;
    int columns;
  };
  std::vector<matrix> of;
  cublasOperation_t how = CUBLAS_OP_N;
};
[[nodiscard]] inline matrices transposed(matrices all) {
  all.how = CUBLAS_OP_T;
  return all;
}

/// out = a b for all experts in one call, each with as many rows as it has. Column by column, as
/// cuBLAS goes, that is the transpose of out, from b and then a.
class expert_products {
 public:
  /// @param most experts at once
  /// @param math tensor cores round fp32 to TF32: CUBLAS_TF32_TENSOR_OP_MATH allows that
  expert_products(cudaStream_t stream, std::size_t most, cublasMath_t math = CUBLAS_DEFAULT_MATH)
      : stream_{stream}, pointers_{3 * most * sizeof(float*)} {
    require(cublasCreate(&handle_));
    require(cublasSetStream(handle_, stream));
    require(cublasSetMathMode(handle_, math));
  }
  expert_products(expert_products const&) = delete;
  expert_products& operator=(expert_products const&) = delete;
  ~expert_products() { cublasDestroy(handle_); }

  void operator()(matrices const& a, matrices const& b, matrices const& out) {
    auto m = std::vector<int>{}, n = m, k = m, ld_a = m, ld_b = m;
    auto data_a = std::vector<float*>{}, data_b = data_a, data_out = data_a;
    for (std::size_t e = 0; e < out.of.size(); ++e) {
      auto const inner = a.how == CUBLAS_OP_N ? a.of[e].columns : a.of[e].rows;
      if (out.of[e].rows == 0 || inner == 0) continue;  // an expert without rows
      m.push_back(out.of[e].columns);
      n.push_back(out.of[e].rows);
      k.push_back(inner);
      ld_a.push_back(a.of[e].columns);
      ld_b.push_back(b.of[e].columns);
      data_a.push_back(a.of[e].data);
      data_b.push_back(b.of[e].data);
      data_out.push_back(out.of[e].data);
    }
    auto const count = m.size();
    if (count == 0) return;
    auto const how_a = std::vector(count, a.how);
    auto const how_b = std::vector(count, b.how);
    auto const one = std::vector(count, 1.0F);
    auto const zero = std::vector(count, 0.0F);
    auto const group_size = std::vector(count, 1);
    require(cublasSgemmGroupedBatched(
        handle_, how_b.data(), how_a.data(), m.data(), n.data(), k.data(), one.data(),
        on_device(0, data_b), ld_b.data(), on_device(1, data_a), ld_a.data(), zero.data(),
        on_device(2, data_out), m.data(), static_cast<int>(count), group_size.data()));
  }

 private:
  static void require(cublasStatus_t code) {
    if (code != CUBLAS_STATUS_SUCCESS) throw std::runtime_error{cublasGetStatusString(code)};
  }
  /// One of three lists, for cuBLAS to read when the stream comes there.
  [[nodiscard]] float** on_device(std::size_t which, std::vector<float*> const& list) const {
    auto* const there = pointers_.bytes().data() + which * pointers_.bytes().size() / 3;
    fssdp::detail::cuda_require(cudaMemcpyAsync(there, list.data(), list.size() * sizeof(float*),
                                                cudaMemcpyHostToDevice, stream_),
                                {}, "cudaMemcpyAsync");
    return reinterpret_cast<float**>(there);
  }

  cudaStream_t stream_;
  fssdp::cuda_memory pointers_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace cuda_layer
