// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a gather: its own chunks first, then what the plan moves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/collective/convert.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

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
struct gather_scratch {
  std::size_t converted;  ///< chunks
  std::size_t relayed;    ///< pieces
  std::size_t chunk_bytes;
  std::size_t piece_bytes;

  /// @param elements(k) the size of tensor k of a whole expert
  template <class Elements>
  gather_scratch(transfer_plan const& plan, rank_id rank, std::size_t converted_chunks,
                 std::size_t tensors, std::size_t element_bytes, Elements elements)
      : converted{converted_chunks}, relayed{plan.relayed(rank).size()} {
    auto const slice = [&](std::size_t k) { return slice_elements(elements(k), plan.slices()); };
    chunk_bytes =
        slot_offset(tensors, [&](std::size_t k) { return byte_count(1, slice(k), element_bytes); });
    piece_bytes = slot_offset(tensors, [&](std::size_t k) {
      return byte_count(1, piece_elements(slice(k), plan.pieces()), element_bytes);
    });
  }
  [[nodiscard]] std::size_t bytes() const {
    return add_bytes(byte_count(converted, chunk_bytes, 1), byte_count(relayed, piece_bytes, 1));
  }
};

template <class Shard, class Replicas>
class gather_pass {
  using From = std::remove_const_t<std::remove_pointer_t<decltype(Shard{}[0].data)>>;
  using To = std::remove_pointer_t<decltype(Replicas{}[0].data)>;

 public:
  /// @param slots the experts in the slots of `to`, ascending
  gather_pass(transfer_plan const& plan, rank_id me, Shard from, Replicas to,
              std::span<expert_id const> slots)
      : plan_{plan}, me_{me}, from_{from}, to_{to}, slots_{slots} {}

  template <class Lane>
  void run(Lane& lane, scratch_memory& scratch) {
    divide(scratch);
    place_own_chunks();
    if constexpr (converts) convert_for_others();
    if constexpr (forwarding_communicator<Lane>) {
      if (plan_.rounds() > 1) return forward(lane);
    }
    for (int round = 0; round < plan_.rounds(); ++round)
      lane.exchange([&](auto& batch) {
        set_label(batch, {plan_.hash_value(), round});
        for (auto const& t : plan_.sends(me_, round))
          for (std::size_t k = 0; k < to_.size(); ++k)
            batch.send(std::as_bytes(outgoing(k, t.what())), t.destination);
        for (auto const& t : plan_.receives(me_, round))
          for (std::size_t k = 0; k < to_.size(); ++k)
            batch.recv(std::as_writable_bytes(incoming(k, t.what())), t.source);
      });
  }

 private:
  static constexpr auto converts = !std::is_same_v<From, To>;

  /// Everything at once: a piece goes on as soon as it is there.
  template <class Lane>
  void forward(Lane& lane) {
    auto const tensors = to_.size();
    lane.forward(
        [&](auto& batch) {
          set_label(batch, {plan_.hash_value(), 2 * plan_.rounds()});
          for (auto const& t : plan_.sends(me_))
            for (std::size_t k = 0; k < tensors; ++k) {
              auto const bytes = std::as_bytes(outgoing(k, t.what()));
              if (plan_.owner(t.chunk) == me_)
                batch.send(bytes, t.destination);
              else
                batch.hold(bytes, t.destination);
            }
          for (auto const& t : plan_.receives(me_))
            for (std::size_t k = 0; k < tensors; ++k)
              batch.recv(std::as_writable_bytes(incoming(k, t.what())), t.source);
        },
        [&](std::size_t wanted, std::span<std::byte const>, auto& gate) {
          for (auto const follower : plan_.followers(me_, wanted / tensors))
            gate.release(static_cast<std::size_t>(follower) * tensors + wanted % tensors);
        });
  }

  /// Cuts the scratch: converted chunks, relayed pieces.
  void divide(scratch_memory& scratch) {
    auto const parts =
        gather_scratch{plan_,      me_,        converts ? converted_chunks(plan_, me_, slots_) : 0,
                       to_.size(), sizeof(To), [this](std::size_t k) { return to_[k].elements; }};
    if (parts.bytes() == 0) return;
    converted_ = scratch.reserve(parts.bytes()).data();
    relayed_ = converted_ + parts.converted * parts.chunk_bytes;
    chunk_bytes_ = parts.chunk_bytes;
    piece_bytes_ = parts.piece_bytes;
  }

  [[nodiscard]] slice_extent slice(std::size_t k, chunk_id chunk) const {
    return {to_[k].elements, chunk.slice, plan_.slices()};
  }
  /// A piece within its slice.
  [[nodiscard]] piece_extent extent(std::size_t k, piece_id piece) const {
    return {slice(k, piece.chunk).elements, piece.index, plan_.pieces()};
  }
  template <class T>
  [[nodiscard]] std::span<T> cut(std::span<T> whole, std::size_t k, piece_id piece) const {
    auto const [first, elements] = extent(k, piece);
    return whole.subspan(first, elements);
  }

  /// A chunk in this rank's shard, without padding.
  [[nodiscard]] std::span<From const> own(std::size_t k, chunk_id chunk) const {
    return from_[k][plan_.owner_slot(chunk)].first(slice(k, chunk).elements);
  }
  [[nodiscard]] bool has_slot(chunk_id chunk) const {
    return std::ranges::binary_search(slots_, chunk.expert);
  }
  /// A chunk in its expert's slot.
  [[nodiscard]] std::span<To> replica(std::size_t k, chunk_id chunk) const {
    auto const [first, elements] = slice(k, chunk);
    return to_[k][transfer_plan::slot_in(slots_, chunk.expert)].subspan(first, elements);
  }
  /// A chunk of this rank's shard in the scratch.
  [[nodiscard]] std::span<To> converted(std::size_t k, chunk_id chunk) const {
    auto const slot = transfer_plan::slot_in(plan_.shared(me_), chunk);
    auto* const at = converted_ + slot * chunk_bytes_ + slot_offset(k, [this](std::size_t j) {
                       return from_[j].elements * sizeof(To);
                     });
    return {reinterpret_cast<To*>(at), slice(k, chunk).elements};
  }
  /// A piece of a chunk that this rank does not hold.
  [[nodiscard]] std::span<To> relayed(std::size_t k, piece_id piece) const {
    auto const slot = transfer_plan::slot_in(plan_.relayed(me_), piece);
    auto* const at = relayed_ + slot * piece_bytes_ + slot_offset(k, [this](std::size_t j) {
                       return piece_elements(from_[j].elements, plan_.pieces()) * sizeof(To);
                     });
    return {reinterpret_cast<To*>(at), extent(k, piece).elements};
  }

  [[nodiscard]] std::span<To> incoming(std::size_t k, piece_id piece) const {
    if (!plan_.where().holds(me_, piece.chunk.expert)) return relayed(k, piece);
    return cut(replica(k, piece.chunk), k, piece);
  }
  [[nodiscard]] std::span<To const> outgoing(std::size_t k, piece_id piece) const {
    auto const chunk = piece.chunk;
    if (plan_.owner(chunk) == me_) {
      if constexpr (!converts) return cut(own(k, chunk), k, piece);
      if (!has_slot(chunk)) return cut(std::span<To const>{converted(k, chunk)}, k, piece);
    }
    return incoming(k, piece);
  }

  /// What this rank owns and has a slot for.
  void place_own_chunks() const {
    for (auto const expert : slots_)
      for (auto const slice : first_n<slice_id>(plan_.slices())) {
        auto const chunk = chunk_id{expert, slice};
        if (plan_.owner(chunk) != me_) continue;
        for (std::size_t k = 0; k < to_.size(); ++k) convert(own(k, chunk), replica(k, chunk));
      }
  }

  /// What others get of this rank's shard, in their type, where no slot of its own has it.
  void convert_for_others() const {
    for (auto const chunk : plan_.shared(me_))
      if (!has_slot(chunk))
        for (std::size_t k = 0; k < from_.size(); ++k) convert(own(k, chunk), converted(k, chunk));
  }

  transfer_plan const& plan_;
  rank_id me_;
  Shard from_;
  Replicas to_;
  std::span<expert_id const> slots_;
  std::byte* converted_ = nullptr;
  std::byte* relayed_ = nullptr;
  std::size_t chunk_bytes_ = 0;
  std::size_t piece_bytes_ = 0;
};

}  // namespace detail
}  // namespace fssdp
