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

/// Knows the slot of each of them, ascending: consecutive pieces of a chunk have consecutive slots
/// if all pieces between them are listed.
class piece_list {
 public:
  piece_list() = default;
  piece_list(memory_cutter& memory, std::size_t count) : pieces_{memory.items<piece_id>(count)} {}

  [[nodiscard]] static std::size_t bytes(std::size_t count) {
    return byte_count(count, sizeof(piece_id), 1);
  }

  /// Lists all its pieces, none twice: name_all calls the function that it is given for each.
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
  /// @pre it is listed
  [[nodiscard]] std::size_t slot(piece_id piece) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(pieces_, piece) - pieces_.begin());
  }

 private:
  std::span<piece_id> pieces_;
};

}  // namespace fssdp::detail
