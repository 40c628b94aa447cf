// SPDX-License-Identifier: Apache-2.0
/// The sizes of buffers and scratch on one rank.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/coded_gather_memory.hpp"
#include "fssdp/collective/coded_reduction_memory.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/collective/reduction_pass.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/byte_count.hpp"

namespace fssdp::detail {

/// The buffers of a gather on a rank, without memory.
[[nodiscard]] inline gather_buffers gathered(expert_shape const& shape, transfer_plan const& plan,
                                             rank_id rank, std::span<expert_id const> slots) {
  return {plan, rank, shape.weights.all(), shape.replicas.all(), slots, nullptr};
}
/// The number of slots that these experts need; the number of rows where experts differ in size.
[[nodiscard]] inline std::size_t room_for(std::span<expert_id const> experts,
                                          std::span<std::size_t const> offsets) {
  return offsets.empty() ? experts.size() : offsets.back();
}
/// The bytes of a buffer of these tensors.
[[nodiscard]] inline std::size_t bytes_of_slots(std::size_t slots, tensor_list const& tensors) {
  auto sum = std::size_t{0};
  for (auto const& tensor : tensors.all())
    sum = add_bytes(sum, byte_count(slots, tensor.elements, tensor.element_bytes));
  return sum;
}

/// The memory of a rank whose replicas have these slots.
/// @param gather, reduce the classes that divide their scratch
template <class Gather, class Reduction>
[[nodiscard]] memory_use add_up(transfer_plan const& plan, rank_id rank, expert_shape const& shape,
                                std::size_t slots, Gather const& gather,
                                Reduction const& reduction) {
  auto use = memory_use{};
  use.replicas = bytes_of_slots(slots, shape.replicas);
  use.partials = bytes_of_slots(room_for(plan.materialized(rank), plan.materialized_offsets(rank)),
                                shape.partials);
  use.gather_scratch = gather.bytes();
  use.reduce_scratch = add_bytes(
      reduction_lists(plan.reduction(), rank, shape.partials.all().size()), reduction.bytes(false));
  (void)add_bytes(add_bytes(use.replicas, use.partials),
                  add_bytes(use.gather_scratch, use.reduce_scratch));
  return use;
}

FSSDP_INLINE memory_use measure_memory(transfer_plan const& plan, rank_id rank,
                                       expert_shape const& shape, payload_codec const* coder,
                                       link_class on) {
  auto const partials = shape.partials.all();
  auto const back = piece_extents{plan.reduction(), tensor_sizes{partials}};
  auto const sums = element_sizes::of_sums(partials);
  if (coder == nullptr) {
    auto const changes = gathered(shape, plan, rank, {}).changes_types();
    auto const slots = changes ? plan.materialized(rank) : plan.remote(rank);
    auto const room =
        room_for(slots, changes ? plan.materialized_offsets(rank) : plan.remote_offsets(rank));
    return add_up(plan, rank, shape, room, gather_scratch{gathered(shape, plan, rank, slots)},
                  reduction_scratch{plan.reduction(), rank, back, sums});
  }
  auto const slots = plan.materialized(rank);
  auto const traffic = coded_traffic{plan, *coder, on};
  auto const traffic_back = coded_traffic{plan.reduction(), *coder, on};
  return add_up(plan, rank, shape, room_for(slots, plan.materialized_offsets(rank)),
                coded_gather_scratch{gathered(shape, plan, rank, slots), traffic},
                coded_reduction_scratch{plan.reduction(), rank, traffic_back, back, sums});
}

}  // namespace fssdp::detail
