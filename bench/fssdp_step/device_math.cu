// SPDX-License-Identifier: Apache-2.0
// The part of fssdp_step that nvcc compiles: Thrust fills and adds, cuBLAS multiplies, and the
// library sums and copies.
#include "device_math.hpp"

#include <thrust/execution_policy.h>
#include <thrust/fill.h>
#include <thrust/transform.h>

#include "08_cuda_layer/expert_products.hpp"
#include "fssdp/comm/cuda/cuda_kernels.cuh"

namespace step {
namespace {

struct more_by {
  float value;
  __host__ __device__ float operator()(float number) const { return number + value; }
};

class cuda_math : public device_math {
  [[nodiscard]] auto on() const { return thrust::cuda::par_nosync.on(stream_); }

 public:
  cuda_math(cudaStream_t stream, std::size_t most)
      : stream_{stream}, products_{stream, most, CUBLAS_TF32_TENSOR_OP_MATH} {}

  void fill(std::span<float> numbers, float value) override {
    thrust::fill(on(), numbers.data(), numbers.data() + numbers.size(), value);
  }
  void add(std::span<float> numbers, float value) override {
    thrust::transform(on(), numbers.data(), numbers.data() + numbers.size(), numbers.data(),
                      more_by{value});
  }
  void multiply(std::span<product const> all, factors how) override {
    auto const operation = [](reading of) {
      return of == reading::plain ? CUBLAS_OP_N : CUBLAS_OP_T;
    };
    auto a = cuda_layer::matrices{.how = operation(how.a)};
    auto b = cuda_layer::matrices{.how = operation(how.b)};
    auto out = cuda_layer::matrices{};
    for (auto const& one : all) {
      a.of.push_back({one.a.data, one.a.rows, one.a.columns});
      b.of.push_back({one.b.data, one.b.rows, one.b.columns});
      out.of.push_back({one.out.data, one.out.rows, one.out.columns});
    }
    products_(a, b, out);
  }

 private:
  cudaStream_t stream_;
  cuda_layer::expert_products products_;
};

}  // namespace

std::unique_ptr<device_math> make_device_math(cudaStream_t stream, std::size_t most) {
  return std::make_unique<cuda_math>(stream, most);
}

fssdp::device_kernels device_kernels() { return fssdp::cuda_kernels(); }

}  // namespace step
