// SPDX-License-Identifier: Apache-2.0
/// A communicator whose memory is a device's, and nothing but what that takes: between threads, and
/// the device is the host, which loops over the kernels.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/memory/aligned_memory.hpp"

namespace support {

template <fssdp::communicator Comm>
class on_a_device {
 public:
  using stream_type = fssdp::inline_stream;
  using memory_space = fssdp::device_memory;

  explicit on_a_device(Comm& comm) : comm_{&comm} {}

  [[nodiscard]] fssdp::rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  template <class Post>
  void exchange(Post&& post) {
    comm_->exchange(std::forward<Post>(post));
  }

  void sum(fssdp::device_sums const& of) { loop_over(of); }
  void convert(fssdp::device_conversions const& of) { loop_over(of); }
  void encode(fssdp::device_encoding const& of) { loop_over(of); }
  void encode(fssdp::device_sum_encoding const& of) { loop_over(of); }
  void copy(std::span<std::byte> to, std::span<std::byte const> from) {
    std::memcpy(to.data(), from.data(), from.size());
  }
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes) {
    ++allocations_;
    ++live_;
    return {fssdp::detail::allocate_aligned(bytes).release(), bytes};
  }
  void free(std::span<std::byte> memory) noexcept {
    --live_;
    auto const owned = fssdp::detail::aligned_memory{memory.data(), {.bytes = memory.size()}};
  }

  /// How often memory has been asked for, and how many blocks are still out.
  [[nodiscard]] int allocations() const { return allocations_; }
  [[nodiscard]] int live() const { return live_; }

 private:
  template <class Work>
  void loop_over(Work const& work) {
    fssdp::detail::with_kernel(work, [](auto const& kernel) {
      for (std::size_t step = 0; step < kernel.steps(); ++step) kernel(step);
    });
  }

  Comm* comm_;
  int allocations_ = 0;
  int live_ = 0;
};

}  // namespace support
