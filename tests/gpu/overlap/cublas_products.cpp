// SPDX-License-Identifier: Apache-2.0
// Products by cuBLAS.
#include <cublas_v2.h>

#include <memory>
#include <stdexcept>
#include <type_traits>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "gpu/overlap/products.hpp"

namespace {

void require(cublasStatus_t code) {
  if (code != CUBLAS_STATUS_SUCCESS) throw std::runtime_error{cublasGetStatusString(code)};
}

}  // namespace

std::function<void(overlap::product const&)> overlap::products_on(cudaStream_t stream, int spare) {
  auto made = cublasHandle_t{};
  require(cublasCreate(&made));
  auto const handle = std::shared_ptr<std::remove_pointer_t<cublasHandle_t>>{made, cublasDestroy};
  require(cublasSetStream(handle.get(), stream));
  if (spare != 0) {
    auto device = cudaDeviceProp{};
    fssdp::detail::cuda_require(cudaGetDeviceProperties(&device, 0), {}, "cudaGetDeviceProperties");
    require(cublasSetSmCountTarget(handle.get(), device.multiProcessorCount - spare));
  }
  // Column by column, as cuBLAS goes, that is the transpose of out, from w and then x.
  return [handle](product const& of) {
    auto const one = 1.0F;
    auto const zero = 0.0F;
    require(cublasGemmEx(handle.get(), CUBLAS_OP_N, CUBLAS_OP_N, of.width, of.rows, of.width, &one,
                         of.w, CUDA_R_16BF, of.width, of.x, CUDA_R_16BF, of.width, &zero, of.out,
                         CUDA_R_32F, of.width, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  };
}
