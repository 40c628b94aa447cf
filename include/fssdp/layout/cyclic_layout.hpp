// SPDX-License-Identifier: Apache-2.0
/// A layout in which chunks are distributed to ranks in turn.
#pragma once

#include <cstddef>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// Slice s of expert e belongs to rank (e + s) mod ranks, so the owners of experts alternate, too.
/// With as many slices as ranks, every rank owns a slice of every expert: fully sharded experts
/// (FSEP, arXiv 2602.11686).
class cyclic_layout {
 public:
  struct shape {
    int experts = 1;
    int ranks = 1;
    int slices = 1;  ///< that every expert is cut into
  };

  cyclic_layout() = default;
  /// @throws argument_error unless there is at least one expert, one rank and one slice.
  explicit cyclic_layout(shape const& of) : shape_{of} {
    detail::check_shape("cyclic_layout", of.experts, of.ranks, of.slices);
  }

  [[nodiscard]] int experts() const { return shape_.experts; }
  [[nodiscard]] int slices() const { return shape_.slices; }
  [[nodiscard]] int ranks() const { return shape_.ranks; }

  [[nodiscard]] rank_id owner(chunk_id chunk) const {
    return rank_id{(chunk.expert.value() + chunk.slice.value()) % ranks()};
  }
  [[nodiscard]] int slot(chunk_id chunk) const {
    auto const [expert, slice] = chunk;
    return owned_below(expert.value(), owner(chunk)) + slice.value() / ranks();
  }
  /// The chunks of a rank in slot order, ascending.
  [[nodiscard]] std::vector<chunk_id> owned(rank_id rank) const {
    auto chunks = std::vector<chunk_id>{};
    chunks.reserve(static_cast<std::size_t>(owned_below(experts(), rank)));
    for (int expert = 0; expert < experts(); ++expert)
      for (int slice = distance(expert, rank); slice < slices(); slice += ranks())
        chunks.push_back({expert_id{expert}, slice_id{slice}});
    return chunks;
  }

  friend bool operator==(cyclic_layout const& a, cyclic_layout const& b) {
    return a.experts() == b.experts() && a.ranks() == b.ranks() && a.slices() == b.slices();
  }

 private:
  /// The index of the first slice of an expert that the rank owns; at most ranks() - 1.
  [[nodiscard]] int distance(int expert, rank_id rank) const {
    return (rank.value() + ranks() - expert % ranks()) % ranks();
  }
  /// The number of chunks of the experts below `expert` that a rank owns.
  [[nodiscard]] int owned_below(int expert, rank_id rank) const {
    auto const rest = slices() % ranks();  // slices of each expert beyond whole turns
    auto count = expert * (slices() / ranks()) + expert / ranks() * rest;
    for (int e = 0; e < expert % ranks(); ++e) count += distance(e, rank) < rest ? 1 : 0;
    return count;
  }

  shape shape_;
};

static_assert(shard_layout<cyclic_layout>);

}  // namespace fssdp
