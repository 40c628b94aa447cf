// SPDX-License-Identifier: Apache-2.0
/// Memory of torch's allocators, for pools and arenas.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// A memory resource that allocates with torch. On CUDA it uses the caching allocator, with the
/// current stream at the time of the call: torch's statistics include the memory, and tensors can
/// reuse it when it is freed. Tensors of that stream may reuse it at once, so work on other streams
/// must have finished.
/// @throws exceptions of the allocator; std::bad_alloc if memory does not have the requested
///         alignment
class torch_memory : public std::pmr::memory_resource {
 public:
  /// @param device of the memory; by default the host, or the device that the allocator uses
  /// @throws argument_error if the allocator has no raw_deleter
  explicit torch_memory(c10::Allocator& from, c10::Device device = c10::kCPU)
      : from_{&from}, device_{device} {
    detail::require(
        from.raw_deleter() != nullptr,
        "torch_memory: an allocator without raw_deleter; expected one, to free memory by "
        "its address");
  }
  /// Memory of a device; without an index, of the current one.
  explicit torch_memory(c10::Device device)
      : torch_memory{*c10::GetAllocator(device.type()), device} {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    auto const there = c10::DeviceGuard{device_};
    auto* const memory = from_->raw_allocate(bytes);
    if (reinterpret_cast<std::uintptr_t>(memory) % alignment == 0) return memory;
    from_->raw_deallocate(memory);
    throw std::bad_alloc{};
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override {
    from_->raw_deallocate(memory);
  }
  [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
    auto const* const same = dynamic_cast<torch_memory const*>(&other);
    return same != nullptr && same->from_ == from_ && same->device_ == device_;
  }

  c10::Allocator* from_;
  c10::Device device_;
};

}  // namespace fssdp
