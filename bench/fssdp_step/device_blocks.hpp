// SPDX-License-Identifier: Apache-2.0
/// Blocks in the memory of a device: parameters of experts, rows of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/token/rows_view.hpp"

namespace step {

/// One tensor of every slot, [slots, elements]: an expert_buffer that the host need not reach.
class device_tensor {
 public:
  device_tensor(std::size_t slots, std::size_t elements, std::pmr::memory_resource* from)
      : memory_{fssdp::detail::allocate_aligned(
            fssdp::expert_buffer<float>::bytes_for(slots, std::span{&elements, 1}), from)},
        tensor_{reinterpret_cast<float*>(memory_.get()), slots, elements} {}

  [[nodiscard]] std::span<fssdp::expert_tensor<float> const> tensors() { return {&tensor_, 1}; }
  [[nodiscard]] std::span<float> all() const {
    return {tensor_.data, tensor_.slots * tensor_.elements};
  }

 private:
  fssdp::detail::aligned_memory memory_;
  fssdp::expert_tensor<float> tensor_;
};

/// Room for rows. It grows, and then forgets what was in it.
class row_block {
 public:
  explicit row_block(std::pmr::memory_resource* from) : memory_{nullptr, {.from = from}} {}

  /// @return a view of so many rows
  template <class T>
  [[nodiscard]] fssdp::rows_view<T> resize(std::size_t rows, std::size_t width) {
    auto const needed = rows * width * sizeof(T);
    if (needed > fssdp::detail::allocated_bytes(memory_)) {
      auto* const from = memory_.get_deleter().from;
      memory_.reset();
      memory_ = fssdp::detail::allocate_aligned(needed + needed / 8, from);
    }
    return {data<T>(), rows, width};
  }
  template <class T>
  [[nodiscard]] T* data() const {
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  fssdp::detail::aligned_memory memory_;
};

}  // namespace step
