// SPDX-License-Identifier: Apache-2.0
/// Per-expert memory on a device with a copy on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// A host buffer, and memory of the same shape on the current device, which collectives use. They
/// are copied only when asked. For programs whose data begins or ends on the host; a program that
/// computes on the device takes views of its own arena (cuda_memory). Move-only.
template <class T>
class cuda_mirror {
 public:
  /// Allocates on the device, and enqueues a copy of the buffer's contents.
  /// @pre the stream outlives it
  /// @throws out_of_memory, transport_error
  cuda_mirror(expert_buffer<T> host, cudaStream_t stream)
      : host_{std::move(host)}, stream_{stream}, device_{device_bytes(host_)} {
    auto* next = device_.bytes().data();
    for (auto const& tensor : host_.tensors()) {
      tensors_.push_back(
          {reinterpret_cast<T*>(next), tensor.slots, tensor.elements, tensor.stride});
      next += detail::padded(bytes(tensor));
    }
    views_.assign(tensors_.begin(), tensors_.end());
    copy_to_device();
  }

  /// The tensors on the device.
  [[nodiscard]] std::span<expert_tensor<T> const> tensors() { return tensors_; }
  [[nodiscard]] std::span<expert_tensor<T const> const> tensors() const { return views_; }
  [[nodiscard]] expert_buffer<T>& host() { return host_; }
  [[nodiscard]] expert_buffer<T> const& host() const { return host_; }

  /// Enqueues a copy of all host tensors to the device.
  /// @pre the host buffer does not change until the stream is synchronized
  /// @throws transport_error
  void copy_to_device() {
    for (std::size_t k = 0; k < tensors_.size(); ++k)
      copy(tensors_[k].data, host_.tensors()[k].data, bytes(tensors_[k]), cudaMemcpyHostToDevice);
  }
  /// Copies all device tensors to the host, after the work on the stream, and waits for it.
  /// @pre the communicator has been synchronized, as this wait has no deadline
  /// @throws transport_error
  void synchronize_to_host() {
    for (std::size_t k = 0; k < tensors_.size(); ++k)
      copy(host_.tensors()[k].data, tensors_[k].data, bytes(tensors_[k]), cudaMemcpyDeviceToHost);
    detail::cuda_require(cudaStreamSynchronize(stream_), {}, "cudaStreamSynchronize");
  }

 private:
  [[nodiscard]] static std::size_t bytes(expert_tensor<T> const& tensor) {
    return tensor.slots * tensor.stride * sizeof(T);
  }
  [[nodiscard]] static std::size_t device_bytes(expert_buffer<T>& host) {
    auto sum = std::size_t{0};
    for (auto const& tensor : host.tensors()) sum += detail::padded(bytes(tensor));
    return sum;
  }
  void copy(T* to, T const* from, std::size_t size, cudaMemcpyKind kind) const {
    if (size != 0)
      detail::cuda_require(cudaMemcpyAsync(to, from, size, kind, stream_), {}, "cudaMemcpyAsync");
  }

  expert_buffer<T> host_;
  cudaStream_t stream_;
  cuda_memory device_;
  std::vector<expert_tensor<T>> tensors_;
  std::vector<expert_tensor<T const>> views_;  // the same, read-only
};

}  // namespace fssdp
