// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a gather: its own chunks first, then the plan's rounds.
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
    place_own_chunks();
    if constexpr (converts) convert_for_others(scratch);
    for (int round = 0; round < plan_.rounds(); ++round)
      lane.exchange([&](auto& batch) {
        set_label(batch, {plan_.hash_value(), round});
        for (auto const& t : plan_.sends(me_, round))
          for (std::size_t k = 0; k < to_.size(); ++k)
            batch.send(std::as_bytes(outgoing(k, t.chunk)), t.destination);
        for (auto const& t : plan_.receives(me_, round))
          for (std::size_t k = 0; k < to_.size(); ++k)
            batch.recv(std::as_writable_bytes(replica(k, t.chunk)), t.source);
      });
  }

 private:
  static constexpr auto converts = !std::is_same_v<From, To>;

  [[nodiscard]] slice_extent extent(std::size_t k, chunk_id chunk) const {
    return {to_[k].elements, chunk.slice, plan_.slices()};
  }
  /// A chunk in this rank's shard, without padding.
  [[nodiscard]] std::span<From const> own(std::size_t k, chunk_id chunk) const {
    return from_[k][plan_.owner_slot(chunk)].first(extent(k, chunk).elements);
  }
  [[nodiscard]] bool has_slot(chunk_id chunk) const {
    return std::ranges::binary_search(slots_, chunk.expert);
  }
  /// A chunk in its expert's slot.
  [[nodiscard]] std::span<To> replica(std::size_t k, chunk_id chunk) const {
    auto const [first, elements] = extent(k, chunk);
    return to_[k][transfer_plan::slot_in(slots_, chunk.expert)].subspan(first, elements);
  }
  /// A chunk of this rank's shard in the scratch.
  [[nodiscard]] std::span<To> converted(std::size_t k, chunk_id chunk) const {
    auto const slot = transfer_plan::slot_in(plan_.shared(me_), chunk);
    auto* const at = converted_ + slot * offset(from_.size()) + offset(k);
    return {reinterpret_cast<To*>(at), extent(k, chunk).elements};
  }
  [[nodiscard]] std::size_t offset(std::size_t k) const {
    return slot_offset(k, [this](std::size_t j) { return from_[j].elements * sizeof(To); });
  }

  [[nodiscard]] std::span<To const> outgoing(std::size_t k, chunk_id chunk) const {
    if constexpr (converts) {
      if (!has_slot(chunk)) return converted(k, chunk);
    } else {
      if (plan_.owner(chunk) == me_) return own(k, chunk);
    }
    return replica(k, chunk);
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
  void convert_for_others(scratch_memory& scratch) {
    converted_ =
        scratch.reserve(converted_chunks(plan_, me_, slots_) * offset(from_.size())).data();
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
};

}  // namespace detail
}  // namespace fssdp
