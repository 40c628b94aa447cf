// SPDX-License-Identifier: Apache-2.0
/// A layout in which consecutive chunks have the same owner.
#pragma once

#include <algorithm>

#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// Rank r owns the r-th block of chunks. Block sizes differ by at most one; the first chunks %
/// ranks blocks have one chunk more. With fewer chunks than ranks the last ranks own nothing.
/// Expert parallelism uses blocks of whole experts.
class block_layout {
 public:
  struct shape {
    int experts = 1;
    int ranks = 1;
    int slices = 1;  ///< that every expert is cut into
  };

  block_layout() = default;
  /// @throws argument_error unless there is at least one expert, one rank and one slice.
  explicit block_layout(shape const& of) : shape_{of} {
    detail::check_shape("block_layout", of.experts, of.ranks, of.slices);
  }

  [[nodiscard]] int experts() const { return shape_.experts; }
  [[nodiscard]] int slices() const { return shape_.slices; }
  [[nodiscard]] int ranks() const { return shape_.ranks; }

  [[nodiscard]] rank_id owner(chunk_id chunk) const {
    auto const at = position(chunk);
    auto const in_long_blocks = chunks() % ranks() * (size() + 1);
    return rank_id{at < in_long_blocks ? at / (size() + 1)
                                       : chunks() % ranks() + (at - in_long_blocks) / size()};
  }
  [[nodiscard]] int slot(chunk_id chunk) const {
    return position(chunk) - first(owner(chunk).value());
  }
  /// The chunks of a rank in slot order, ascending.
  [[nodiscard]] chunk_range owned(rank_id rank) const {
    return {first(rank.value()), first(rank.value() + 1), slices()};
  }

  friend bool operator==(block_layout const& a, block_layout const& b) {
    return a.experts() == b.experts() && a.ranks() == b.ranks() && a.slices() == b.slices();
  }

 private:
  [[nodiscard]] int chunks() const { return experts() * slices(); }
  [[nodiscard]] int position(chunk_id chunk) const {
    return chunk.expert.value() * slices() + chunk.slice.value();
  }
  [[nodiscard]] int size() const { return chunks() / ranks(); }
  [[nodiscard]] int first(int rank) const {
    return rank * size() + std::min(rank, chunks() % ranks());
  }

  shape shape_;
};

static_assert(shard_layout<block_layout>);

}  // namespace fssdp
