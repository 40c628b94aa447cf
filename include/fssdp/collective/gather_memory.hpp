// SPDX-License-Identifier: Apache-2.0
/// Where the pieces of a gather come from and go to, if they travel as they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/collective/gather_buffers.hpp"
#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/tensor_list.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Of how many chunks a rank needs room for converted copies, beside the given slots: of all that
/// others get, unless all of them have slots.
[[nodiscard]] inline std::size_t converted_chunks(transfer_plan const& plan, rank_id rank,
                                                  std::span<expert_id const> slots) {
  auto const has_slot = [&](chunk_id chunk) {
    return std::ranges::binary_search(slots, chunk.expert);
  };
  auto const shared = plan.shared(rank);
  return std::ranges::all_of(shared, has_slot) ? 0 : shared.size();
}

/// The memory of a rank's part in a gather, cut into its parts: chunks that it converts, and pieces
/// that it only relays, each with room for all tensors.
class gather_scratch {
 public:
  gather_scratch(transfer_plan const& plan, rank_id rank, std::size_t converted_chunks,
                 piece_extents const& extents, std::size_t element_bytes)
      : converted_{converted_chunks},
        relayed_{plan.relayed(rank).size()},
        extents_{extents},
        element_bytes_{element_bytes} {}

  [[nodiscard]] auto converted() const {
    return slot_array{converted_, extents_.tensors(), [this](std::size_t k) {
                        return unpadded_bytes(1, extents_.slice_room(k), element_bytes_);
                      }};
  }
  [[nodiscard]] auto relayed() const { return element_slots(relayed_, extents_, element_bytes_); }
  [[nodiscard]] std::size_t bytes() const {
    return add_bytes(converted().bytes(), relayed().bytes());
  }

 private:
  std::size_t converted_;  // chunks
  std::size_t relayed_;    // pieces
  piece_extents extents_;
  std::size_t element_bytes_;
};

/// Elements travel from shard to slot, in the type of the slot.
class gather_memory {
 public:
  explicit gather_memory(gather_buffers const& of)
      : of_{of},
        parts_{of.plan, of.me,
               of.conversion.changes_type() ? converted_chunks(of.plan, of.me, of.slots) : 0,
               of.extents, of.conversion.to_bytes} {}

  [[nodiscard]] std::size_t tensors() const { return of_.to.size(); }
  [[nodiscard]] bool fills_slots(chunk_id chunk) const { return of_.extents.fills_slots(chunk); }
  [[nodiscard]] std::uint64_t label() const { return of_.plan.hash_value(); }

  /// Places what this rank owns, and converts what others get of it.
  void begin(communicator_ref const& comm, pass_scratch& scratch) {
    if (parts_.bytes() != 0) divide(scratch.cut(0, parts_.bytes()).data);
    of_.for_each_own_chunk([&](chunk_id chunk) { of_.place(comm, chunk); });
    if (of_.conversion.changes_type()) convert_for_others(comm);
  }

  [[nodiscard]] std::span<std::byte> incoming(std::size_t k, piece_id piece) const {
    return landing(k, piece).bytes();
  }
  [[nodiscard]] std::span<std::byte const> outgoing(std::size_t k, piece_id piece) const {
    if (of_.owns(piece.chunk)) {
      if (!of_.conversion.changes_type()) return of_.own_piece(k, piece).bytes();
      if (!of_.has_slot(piece.chunk))
        return of_.extents.cut_slice(converted(k, piece.chunk), k, piece).bytes();
    }
    return landing(k, piece).bytes();
  }
  /// A piece is where it belongs as soon as it is there.
  void arrived(std::size_t, piece_id) const {}

 private:
  /// Cuts the scratch: converted chunks, relayed pieces.
  void divide(std::byte* scratch) {
    converted_ = scratch;
    relayed_ = converted_ + parts_.converted().bytes();
  }

  /// Where a piece that others own comes in: in its slot, or in the scratch if this rank does not
  /// hold its expert.
  [[nodiscard]] element_range landing(std::size_t k, piece_id piece) const {
    if (of_.holds(piece.chunk)) return of_.replica_piece(k, piece);
    auto const slot = transfer_plan::slot_in(of_.plan.relayed(of_.me), piece);
    return {relayed_ + parts_.relayed().offset(k, slot), of_.extents.elements(k, piece),
            of_.conversion.to_bytes};
  }
  /// A chunk of this rank's shard in the scratch.
  [[nodiscard]] element_range converted(std::size_t k, chunk_id chunk) const {
    auto const slot = transfer_plan::slot_in(of_.plan.shared(of_.me), chunk);
    return {converted_ + parts_.converted().offset(k, slot), of_.extents.slice(k, chunk).elements,
            of_.conversion.to_bytes};
  }
  /// What others get of this rank's shard, in their type, where no slot of its own has it.
  void convert_for_others(communicator_ref const& comm) const {
    for (auto const chunk : of_.plan.shared(of_.me))
      if (!of_.has_slot(chunk))
        for (std::size_t k = 0; k < tensors(); ++k)
          convert_on(comm, of_.conversion, of_.own(k, chunk), converted(k, chunk));
  }

  gather_buffers of_;
  gather_scratch parts_;
  std::byte* converted_ = nullptr;
  std::byte* relayed_ = nullptr;
};

}  // namespace fssdp::detail
