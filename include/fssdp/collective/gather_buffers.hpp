// SPDX-License-Identifier: Apache-2.0
/// What a gather reads and writes on one rank, by chunk and by piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

template <class Shard, class Replicas>
struct gather_buffers {
  using from_type = std::remove_const_t<std::remove_pointer_t<decltype(Shard{}[0].data)>>;
  using to_type = std::remove_pointer_t<decltype(Replicas{}[0].data)>;

  transfer_plan const& plan;
  rank_id me;
  Shard from;
  Replicas to;
  std::span<expert_id const> slots;  ///< the experts in `to`, ascending
  piece_extents<Replicas> extents{plan, to};

  [[nodiscard]] bool owns(chunk_id chunk) const { return plan.owner(chunk) == me; }
  [[nodiscard]] bool holds(chunk_id chunk) const { return plan.where().holds(me, chunk.expert); }
  [[nodiscard]] bool has_slot(chunk_id chunk) const {
    return std::ranges::binary_search(slots, chunk.expert);
  }

  /// A chunk in this rank's shard, without padding.
  [[nodiscard]] std::span<from_type const> own(std::size_t k, chunk_id chunk) const {
    return from[k][plan.owner_slot(chunk)].first(extents.slice(k, chunk).elements);
  }
  [[nodiscard]] std::span<from_type const> own_piece(std::size_t k, piece_id piece) const {
    return extents.cut_slice(own(k, piece.chunk), k, piece);
  }
  /// A chunk in its expert's slot.
  [[nodiscard]] std::span<to_type> replica(std::size_t k, chunk_id chunk) const {
    auto const [first, elements] = extents.slice(k, chunk);
    return to[k][transfer_plan::slot_in(slots, chunk.expert)].subspan(first, elements);
  }
  [[nodiscard]] std::span<to_type> replica_piece(std::size_t k, piece_id piece) const {
    return extents.cut_slice(replica(k, piece.chunk), k, piece);
  }

  /// Calls visit(chunk) for what this rank owns and has a slot for.
  template <class Visit>
  void for_each_own_chunk(Visit visit) const {
    for (auto const expert : slots)
      for (auto const slice : first_n<slice_id>(plan.slices()))
        if (owns({expert, slice})) visit(chunk_id{expert, slice});
  }
  /// Copies a chunk of this rank's shard into its slot.
  template <class Lane>
  void place(Lane& lane, chunk_id chunk) const {
    for (std::size_t k = 0; k < to.size(); ++k) convert_on(lane, own(k, chunk), replica(k, chunk));
  }
};
template <class Shard, class Replicas>
gather_buffers(transfer_plan const&, rank_id, Shard, Replicas, std::span<expert_id const>)
    -> gather_buffers<Shard, Replicas>;

}  // namespace fssdp::detail
