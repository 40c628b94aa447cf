// SPDX-License-Identifier: Apache-2.0
/// Kernels of fssdp_step. A source that nvcc compiles defines them, with Thrust and cuBLAS, or one
/// that stands for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace step {

/// A matrix on the device, row by row; or its transpose, where it is read.
struct matrix {
  float* data;
  int rows;
  int columns;
};
enum class reading { plain, transposed };

/// out = a b
struct product {
  matrix a;
  matrix b;
  matrix out;
};
/// How the factors of a list of products are read.
struct factors {
  reading a = reading::plain;
  reading b = reading::plain;
};

/// Everything is enqueued on one stream.
class device_math {
 public:
  device_math() = default;
  device_math(device_math const&) = delete;
  device_math& operator=(device_math const&) = delete;
  virtual ~device_math() = default;

  virtual void fill(std::span<float> numbers, float value) = 0;
  virtual void add(std::span<float> numbers, float value) = 0;
  /// All of them at once; those that have no rows, or nothing to sum, are left out.
  virtual void multiply(std::span<product const> all, factors how) = 0;
};

/// @param most products at once
/// @pre the device of the stream is the current one; the stream outlives it
[[nodiscard]] std::unique_ptr<device_math> make_device_math(cudaStream_t stream, std::size_t most);

/// The library's sums and copies.
[[nodiscard]] fssdp::device_kernels device_kernels();

}  // namespace step
