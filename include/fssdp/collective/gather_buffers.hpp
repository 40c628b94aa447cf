// SPDX-License-Identifier: Apache-2.0
/// What a gather reads and writes on one rank, by chunk and by piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/tensor_list.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

struct gather_buffers {
  transfer_plan const& plan;
  rank_id me;
  std::span<tensor_view const> from;
  std::span<tensor_view const> to;
  std::span<expert_id const> slots;  ///< the experts in `to`, ascending
  element_conversion conversion;     ///< from the type of `from` to that of `to`
  piece_extents extents{plan, tensor_sizes{to}};

  [[nodiscard]] bool owns(chunk_id chunk) const { return plan.owner(chunk) == me; }
  [[nodiscard]] bool holds(chunk_id chunk) const { return plan.where().holds(me, chunk.expert); }
  [[nodiscard]] bool has_slot(chunk_id chunk) const {
    return std::ranges::binary_search(slots, chunk.expert);
  }

  /// A chunk in this rank's shard, without padding.
  [[nodiscard]] element_range own(std::size_t k, chunk_id chunk) const {
    return from[k][plan.owner_slot(chunk)].part(0, extents.slice(k, chunk).elements);
  }
  [[nodiscard]] element_range own_piece(std::size_t k, piece_id piece) const {
    return extents.cut_slice(own(k, piece.chunk), k, piece);
  }
  /// A chunk in its expert's slot.
  [[nodiscard]] element_range replica(std::size_t k, chunk_id chunk) const {
    auto const [first, elements] = extents.slice(k, chunk);
    return to[k][transfer_plan::slot_in(slots, chunk.expert)].part(first, elements);
  }
  [[nodiscard]] element_range replica_piece(std::size_t k, piece_id piece) const {
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
  void place(communicator_ref const& comm, chunk_id chunk) const {
    for (std::size_t k = 0; k < to.size(); ++k)
      convert_on(comm, conversion, own(k, chunk), replica(k, chunk));
  }
};

}  // namespace fssdp::detail
