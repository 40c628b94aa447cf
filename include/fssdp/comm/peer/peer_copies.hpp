// SPDX-License-Identifier: Apache-2.0
/// The copies of one exchange between devices of one process.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_kernels.hpp"
#include "fssdp/element/device_copies.hpp"

namespace fssdp::detail {

/// Is filled, enqueued as a whole, and filled again.
/// @cost no allocation once the most copies have been seen
class peer_copies {
 public:
  void clear() {
    to_.clear();
    from_.clear();
    bytes_.clear();
  }
  void add(std::span<std::byte> to, std::span<std::byte const> from) {
    if (from.empty()) return;
    to_.push_back(to.data());
    from_.push_back(from.data());
    bytes_.push_back(from.size());
  }

  /// @cost one call; one for each copy before CUDA 13, and on a default stream
  /// @throws transport_error
  void enqueue_on_engines(cudaStream_t stream, rank_id me) {
    if (bytes_.empty()) return;
#if CUDART_VERSION >= 13000
    if (!is_default(stream)) return enqueue_batch(stream, me);
#endif
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      cuda_require(cudaMemcpyAsync(to_[i], from_[i], bytes_[i], cudaMemcpyDefault, stream), me,
                   "cudaMemcpyAsync");
  }

  /// @cost one launch for device_copies::most of them
  /// @throws transport_error
  void enqueue_as_kernels(cudaStream_t stream, rank_id me, device_kernels const& kernels) const {
    for (std::size_t first = 0; first < bytes_.size(); first += device_copies::most) {
      auto part = device_copies{};
      part.count = std::min(bytes_.size() - first, device_copies::most);
      for (std::size_t i = 0; i < part.count; ++i)
        part.copies[i] = {static_cast<std::byte*>(to_[first + i]),
                          static_cast<std::byte const*>(from_[first + i]), bytes_[first + i]};
      cuda_require(kernels.copy(stream, part), me, "a kernel that copies");
    }
  }

 private:
#if CUDART_VERSION >= 13000
  /// CUDA takes no batches on those.
  [[nodiscard]] static bool is_default(cudaStream_t stream) {
    return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  }
  void enqueue_batch(cudaStream_t stream, rank_id me) {
    auto attributes = cudaMemcpyAttributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    auto of_all = std::size_t{0};  // the first copy that has them
    cuda_require(cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), bytes_.size(),
                                      &attributes, &of_all, 1, stream),
                 me, "cudaMemcpyBatchAsync");
  }
#endif

  std::vector<void*> to_;
  std::vector<void const*> from_;
  std::vector<std::size_t> bytes_;
};

}  // namespace fssdp::detail
