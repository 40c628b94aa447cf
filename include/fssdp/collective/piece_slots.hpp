// SPDX-License-Identifier: Apache-2.0
/// Room in scratch for some of a plan's pieces, found by piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/chunk.hpp"

namespace fssdp::detail {

/// A slot for each piece that is named, with room for all its tensors.
class piece_slots {
 public:
  piece_slots() = default;
  /// Room for `count` pieces, of bytes(count, slot_bytes).
  piece_slots(memory_cutter& memory, std::size_t count, std::size_t slot_bytes)
      : pieces_{memory.items<piece_id>(count)},
        slots_{memory.bytes(count * slot_bytes)},
        slot_bytes_{slot_bytes} {}

  [[nodiscard]] static std::size_t bytes(std::size_t count, std::size_t slot_bytes) {
    return add_bytes(byte_count(count, sizeof(piece_id), 1), byte_count(count, slot_bytes, 1));
  }

  /// Names all its pieces, none twice, by calls of the function that name_all is given.
  template <class NameAll>
  void assign(NameAll name_all) {
    auto named = std::size_t{0};
    name_all([&](piece_id piece) { pieces_[named++] = piece; });
    std::ranges::sort(pieces_);
  }
  [[nodiscard]] bool contains(piece_id piece) const {
    return std::ranges::binary_search(pieces_, piece);
  }
  /// The slot of a piece.
  /// @pre it has been named
  [[nodiscard]] std::byte* operator[](piece_id piece) const {
    auto const found = std::ranges::lower_bound(pieces_, piece) - pieces_.begin();
    return slots_ + static_cast<std::size_t>(found) * slot_bytes_;
  }

 private:
  std::span<piece_id> pieces_;  // ascending
  std::byte* slots_ = nullptr;
  std::size_t slot_bytes_ = 0;
};

}  // namespace fssdp::detail
