// SPDX-License-Identifier: Apache-2.0
/// The arrangement of slots with several tensors in memory.
#pragma once

#include <cstddef>
#include <utility>

#include "fssdp/memory/byte_count.hpp"

namespace fssdp::detail {

/// Computes where slots are: tensor by tensor, each aligned to a cache line; the slots of a tensor
/// are contiguous, so that adjacent ones can be read and written together.
/// @tparam Bytes bytes(k): the size of a slot in tensor k
template <class Bytes>
class slot_array {
 public:
  slot_array(std::size_t slots, std::size_t tensors, Bytes bytes)
      : slots_{slots}, tensors_{tensors}, bytes_{std::move(bytes)} {}

  /// The size of all slots.
  /// @throws argument_error if it is too large for std::size_t
  [[nodiscard]] std::size_t bytes() const { return begin(tensors_); }
  /// Where tensor k of a slot begins.
  [[nodiscard]] std::size_t offset(std::size_t k, std::size_t slot) const {
    return begin(k) + slot * bytes_(k);
  }

 private:
  [[nodiscard]] std::size_t begin(std::size_t k) const {
    auto sum = std::size_t{0};
    for (std::size_t j = 0; j < k; ++j) sum = add_bytes(sum, byte_count(slots_, bytes_(j), 1));
    return sum;
  }

  std::size_t slots_;
  std::size_t tensors_;
  Bytes bytes_;
};

}  // namespace fssdp::detail
