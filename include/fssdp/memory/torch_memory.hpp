// SPDX-License-Identifier: Apache-2.0
/// Memory from torch's allocators, for pools and arenas.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// A resource of memory that torch knows of: on CUDA its caching allocator's, for the current device
/// and stream, so that torch's figures count it and tensors can have it when it is free.
/// @throws what the allocator throws; std::bad_alloc if its memory is not aligned as it is asked for
class torch_memory : public std::pmr::memory_resource {
 public:
  /// @throws argument_error if the allocator gives no plain addresses
  explicit torch_memory(c10::Allocator& from) : from_{&from} {
    detail::require(from.raw_deleter() != nullptr,
                    "torch_memory: an allocator without raw_deleter; expected one whose memory can "
                    "be given back by its address");
  }
  /// That of a kind of device.
  explicit torch_memory(c10::DeviceType device) : torch_memory{*c10::GetAllocator(device)} {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
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
    return same != nullptr && same->from_ == from_;
  }

  c10::Allocator* from_;
};

}  // namespace fssdp
