// SPDX-License-Identifier: Apache-2.0
/// Host memory that devices can access in place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory_resource>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// A memory resource of pinned host memory: for the shards, gradients and optimizer state of
/// owners, while replicas and partial gradients are on a device.
///
///     auto pinned = fssdp::cuda_pinned_memory{};
///     auto weights = fssdp::make_shard<float>(layout, rank, elements, &pinned);
///     fssdp::sparse_all_gather(comm, plan, weights, replicas);  // tensors of a device
///
/// It has one address for the host and all devices. Collectives of a device back end accept it like
/// device memory: copy engines and kernels access it over the bus. The host may access it only
/// after the communicator has been synchronized. Thread-safe.
class cuda_pinned_memory : public std::pmr::memory_resource {
  static constexpr std::size_t most_alignment = 256;  // guaranteed by CUDA

 public:
  /// @param me the rank in errors
  explicit cuda_pinned_memory(rank_id me = {}) : me_{me} {}

 private:
  /// @cost slow, as pages are pinned one by one: for long-lived memory
  /// @throws out_of_memory if there is not enough memory; transport_error; argument_error if the
  ///         alignment is more than 256
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    detail::require(alignment <= most_alignment, "cuda_pinned_memory: an alignment of ", alignment,
                    " bytes; expected at most ", most_alignment);
    return detail::allocate_pinned(me_, bytes, "a resource (cuda_pinned_memory)").release();
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override { cudaFreeHost(memory); }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return dynamic_cast<cuda_pinned_memory const*>(&other) != nullptr;
  }

  rank_id me_;
};

}  // namespace fssdp
