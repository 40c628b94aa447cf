// SPDX-License-Identifier: Apache-2.0
/// The scratch of one pass: for its lists, and for sums and conversions.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/scratch_memory.hpp"

namespace fssdp::detail {

/// The scratch of one pass over a communicator: one block in host memory; where the communicator
/// works on device memory, lists on the host and data on the device.
class pass_scratch {
 public:
  struct parts {
    std::byte* lists;
    std::byte* data;
  };

  /// Memory that is not given is allocated.
  pass_scratch(communicator_ref const& comm, scratch_memory* given, std::span<std::byte> device)
      : comm_{comm}, lists_{given != nullptr ? given : &own_}, device_{device} {}
  /// A part of what another one has cut.
  pass_scratch(communicator_ref const& comm, std::byte* part)
      : comm_{comm}, lists_{&own_}, part_{part} {}
  pass_scratch(pass_scratch const&) = delete;
  pass_scratch& operator=(pass_scratch const&) = delete;
  ~pass_scratch() {
    if (!allocated_.empty()) comm_.free(allocated_);
  }

  /// Returns the memory for both.
  /// @pre called once; `lists` is a multiple of a cache line, and 0 of a part
  /// @throws argument_error if the given device memory is too small, or not aligned to a cache line
  [[nodiscard]] parts cut(std::size_t lists, std::size_t data) {
    if (part_ != nullptr) return {part_, part_ + lists};
    if (comm_.in_host_memory()) {
      auto* const begin = lists_->reserve(add_bytes(lists, data)).data();
      return {begin, begin + lists};
    }
    auto* const begin = lists_->reserve(lists).data();
    if (data == 0) return {begin, nullptr};
    if (device_.empty()) return {begin, (allocated_ = comm_.allocate(data)).data()};
    require(device_.size() >= data && bytes_to_line(device_.data()) == 0,
            "device_scratch: ", device_.size(), " bytes at ", device_.data(), "; expected ", data,
            " bytes, aligned to a cache line");
    return {begin, device_.data()};
  }

 private:
  communicator_ref comm_;
  scratch_memory own_;
  scratch_memory* lists_;
  std::span<std::byte> device_;
  std::span<std::byte> allocated_;
  std::byte* part_ = nullptr;
};

}  // namespace fssdp::detail
