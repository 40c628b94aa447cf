// SPDX-License-Identifier: Apache-2.0
/// The device work of a rank between exchanges: sums, conversions, codecs and copies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_kernels.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp::detail {

/// The common part of all device_communicators on CUDA. `Comm` derives from it and has `rank`,
/// `stream`, and, for this class, `kernels()`, `request(memory, bytes)`, which allocates on the
/// stream, and `guarded(call)`, which throws instead of calling after a failure.
template <class Comm>
class cuda_work {
 public:
  /// @throws argument_error if the options have no kernels; poisoned_stream if an earlier call has
  ///         failed; transport_error
  void sum(device_sums const& of) {
    launch(self().kernels().sum, of, "sums", "a kernel that sums");
  }
  /// @throws as sum
  void convert(device_conversions const& of) {
    launch(self().kernels().convert, of, "conversions", "a kernel that converts");
  }
  /// @throws as sum
  void encode(device_encoding const& of) {
    launch(self().kernels().encode, of, "payloads", "a kernel that encodes");
  }
  void encode(device_sum_encoding const& of) {
    launch(self().kernels().encode_sum, of, "payloads", "a kernel that encodes a sum");
  }
  /// @throws poisoned_stream, transport_error
  void copy(std::span<std::byte> to, std::span<std::byte const> from) {
    self().guarded([&] {
      cuda_require(
          cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDefault, self().stream()),
          self().rank(), "cudaMemcpyAsync");
    });
  }
  /// @throws poisoned_stream, transport_error; out_of_memory, after which nothing has changed
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes) {
    void* memory = nullptr;
    auto code = cudaSuccess;
    self().guarded([&] {
      code = self().request(&memory, bytes);
      if (code != cudaErrorMemoryAllocation)
        cuda_require(code, self().rank(), "an allocation on a stream");
    });
    if (code == cudaErrorMemoryAllocation)
      throw no_device_memory(self().rank(), bytes, "scratch of a collective");
    return {static_cast<std::byte*>(memory), bytes};
  }
  void free(std::span<std::byte> memory) noexcept { cudaFreeAsync(memory.data(), self().stream()); }

 protected:
  ~cuda_work() = default;
  cuda_work() = default;
  cuda_work(cuda_work&&) = default;
  cuda_work& operator=(cuda_work&&) = default;

 private:
  [[nodiscard]] Comm& self() { return static_cast<Comm&>(*this); }

  template <class Work>
  void launch(cudaError_t (*kernel)(cudaStream_t, Work const&), Work const& of, char const* plural,
              char const* name) {
    require(kernel != nullptr, plural,
            " on a device without kernels; expected options with .kernels = cuda_kernels()");
    self().guarded([&] { cuda_require(kernel(self().stream(), of), self().rank(), name); });
  }
};

}  // namespace fssdp::detail
