// SPDX-License-Identifier: Apache-2.0
/// Memory of the host that devices read and write in place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory_resource>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// A resource of pinned memory of the host: for shards, gradients and moments of owners, while
/// replicas and partial gradients are on a device.
///
///     auto pinned = fssdp::cuda_pinned_memory{};
///     auto weights = fssdp::make_shard<float>(layout, rank, elements, &pinned);
///     fssdp::sparse_all_gather(comm, plan, weights, replicas);  // tensors of a device
///
/// It has one address for the host and all devices, which collectives of a back end on devices take
/// beside memory of a device: engines and kernels read and write it over the host's bus. What the
/// host does with it waits until the communicator is synchronized. Threads may share it.
class cuda_pinned_memory : public std::pmr::memory_resource {
  static constexpr std::size_t most_alignment = 256;  // that CUDA gives by itself

 public:
  /// @param me whom errors name
  explicit cuda_pinned_memory(rank_id me = {}) : me_{me} {}

 private:
  /// @cost slow, as pages are locked one by one: for what stays
  /// @throws out_of_memory if there is not so much; transport_error; argument_error if the alignment
  ///         is more than 256
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
