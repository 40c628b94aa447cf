// SPDX-License-Identifier: Apache-2.0
/// Some of a plan's pieces, listed in scratch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/memory/byte_count.hpp"

namespace fssdp::detail {

/// Knows which slot each of them has: ascending, so that pieces that follow one another in a chunk
/// have slots that do, if nothing lies between them.
class piece_list {
 public:
  piece_list() = default;
  piece_list(memory_cutter& memory, std::size_t count) : pieces_{memory.items<piece_id>(count)} {}

  [[nodiscard]] static std::size_t bytes(std::size_t count) {
    return byte_count(count, sizeof(piece_id), 1);
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
  [[nodiscard]] std::size_t slot(piece_id piece) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(pieces_, piece) - pieces_.begin());
  }

 private:
  std::span<piece_id> pieces_;
};

}  // namespace fssdp::detail
