// SPDX-License-Identifier: Apache-2.0
/// Memory from torch's allocators, for pools and arenas.
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

/// A resource of memory that torch knows of: on CUDA its caching allocator's, for the stream that
/// is current where it is asked for, so that torch's figures count it and tensors can have it when
/// it is free: those of that stream at once, so what others do with it has to be over by then.
/// @throws what the allocator throws; std::bad_alloc if its memory is not aligned as it is asked for
class torch_memory : public std::pmr::memory_resource {
 public:
  /// @param device where it gives memory; by default that of the host, or what the allocator takes
  /// @throws argument_error if the allocator gives no plain addresses
  explicit torch_memory(c10::Allocator& from, c10::Device device = c10::kCPU)
      : from_{&from}, device_{device} {
    detail::require(from.raw_deleter() != nullptr,
                    "torch_memory: an allocator without raw_deleter; expected one whose memory can "
                    "be given back by its address");
  }
  /// That of a device; without a number, of the one that is current.
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
