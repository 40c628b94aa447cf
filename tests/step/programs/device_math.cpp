// SPDX-License-Identifier: Apache-2.0
// Stands for bench/fssdp_step/device_math.cu: loops, in the order of the stream. The environment
// variable DEVICES is the number of devices. MUTATE names a deliberate error: add, fill, or sum (of
// the library's kernels). Calls that the real libraries do not allow are reported at the end.
#include "fssdp_step/device_math.hpp"

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "gpu_double/gpu_double.hpp"
#include "gpu_double/set_up_double.hpp"

namespace {

using step::factors;
using step::product;
using step::reading;

[[nodiscard]] bool is_mutated(std::string const& name) {
  auto const* const mutated = std::getenv("MUTATE");
  return mutated != nullptr && name == mutated;
}
[[nodiscard]] float error_of(std::string const& loop) { return is_mutated(loop) ? 1 : 0; }

struct shape {
  std::size_t rows;
  std::size_t columns;
  std::size_t row_stride;
  std::size_t column_stride;
};
[[nodiscard]] shape shape_of(step::matrix const& of, reading how) {
  auto const rows = static_cast<std::size_t>(of.rows);
  auto const columns = static_cast<std::size_t>(of.columns);
  return how == reading::plain ? shape{rows, columns, columns, 1}
                               : shape{columns, rows, 1, columns};
}

void multiply_by_loops(product const& of, factors how) {
  auto const a = shape_of(of.a, how.a);
  auto const b = shape_of(of.b, how.b);
  for (std::size_t i = 0; i < a.rows; ++i) {
    auto* const out = of.out.data + i * b.columns;
    for (std::size_t j = 0; j < b.columns; ++j) out[j] = 0;
    for (std::size_t k = 0; k < a.columns; ++k) {
      auto const factor = of.a.data[i * a.row_stride + k * a.column_stride];
      for (std::size_t j = 0; j < b.columns; ++j)
        out[j] += factor * of.b.data[k * b.row_stride + j * b.column_stride];
    }
  }
}

class looping_math : public step::device_math {
 public:
  explicit looping_math(cudaStream_t stream) : stream_{stream} {}

  void fill(std::span<float> numbers, float value) override {
    enqueue({numbers.data()}, [numbers, value] {
      for (auto& number : numbers) number = value + error_of("fill");
    });
  }
  void add(std::span<float> numbers, float value) override {
    enqueue({numbers.data()}, [numbers, value] {
      for (auto& number : numbers) number += value + error_of("add");
    });
  }
  void multiply(std::span<product const> all, factors how) override {
    for (auto const& one : all) {
      check_shapes(one, how);
      enqueue({one.a.data, one.b.data, one.out.data}, [one, how] { multiply_by_loops(one, how); });
    }
  }

 private:
  /// Reports factors that do not fit, and memory that is nobody's.
  static void check_shapes(product const& of, factors how) {
    auto const a = shape_of(of.a, how.a);
    auto const b = shape_of(of.b, how.b);
    auto const out = shape_of(of.out, reading::plain);
    if (a.columns != b.rows || a.rows != out.rows || b.columns != out.columns)
      gpu_double::report("a product of matrices that do not fit");
    for (auto const& one : {of.a, of.b, of.out})
      if (!gpu_double::is_device_memory(one.data, sizeof(float) *
                                                      static_cast<std::size_t>(one.rows) *
                                                      static_cast<std::size_t>(one.columns)))
        gpu_double::report("a matrix beyond the memory of the device");
  }
  void enqueue(std::vector<void const*> const& used, std::function<void()> work) const {
    for (auto const* const memory : used) gpu_double::check_access(stream_, memory);
    fssdp::detail::cuda_require(gpu_double::enqueue(stream_, std::move(work)), {}, "enqueue");
  }

  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<step::device_math> step::make_device_math(cudaStream_t stream, std::size_t) {
  return std::make_unique<looping_math>(stream);
}

fssdp::device_kernels step::device_kernels() {
  static auto const is_set_up = gpu_double::set_up_double();
  auto kernels = is_set_up ? gpu_double::kernels() : fssdp::device_kernels{};
  if (is_mutated("sum"))
    kernels.sum = [](cudaStream_t, fssdp::device_sums const&) { return cudaSuccess; };
  return kernels;
}
