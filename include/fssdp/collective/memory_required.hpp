// SPDX-License-Identifier: Apache-2.0
/// What a plan takes, before anything is allocated.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/collective/coded_gather_memory.hpp"
#include "fssdp/collective/coded_reduction_memory.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/collective/reduction_pass.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Bytes that a rank needs beside its shard, to gather by a plan and to reduce by it.
struct memory_use {
  std::size_t replicas = 0;        ///< what make_replicas takes, or make_partials if types differ
  std::size_t partials = 0;        ///< what make_partials takes
  std::size_t gather_scratch = 0;  ///< at most: conversions, and pieces it relays
  std::size_t reduce_scratch = 0;  ///< at most; less where peers' memory can be borrowed

  [[nodiscard]] std::size_t total() const {
    return replicas + partials + gather_scratch + reduce_scratch;
  }
  friend bool operator==(memory_use const&, memory_use const&) = default;
};

namespace detail {

/// The tensors of an expert where they are owned, used and summed, without memory for them.
struct expert_shape {
  tensor_list weights;
  tensor_list replicas;
  tensor_list partials;

  template <element Weight, element Replica, element Partial>
  [[nodiscard]] static expert_shape of(std::span<std::size_t const> elements) {
    return {
        {elements, dtype_of<Weight>}, {elements, dtype_of<Replica>}, {elements, dtype_of<Partial>}};
  }
  [[nodiscard]] static expert_shape of(std::span<tensor_types const> tensors) {
    return {{tensors, &tensor_types::weight},
            {tensors, &tensor_types::replica},
            {tensors, &tensor_types::partial}};
  }

  /// What a gather would work with on a rank.
  [[nodiscard]] gather_buffers gathered(transfer_plan const& plan, rank_id rank,
                                        std::span<expert_id const> slots) const {
    return {plan, rank, weights.all(), replicas.all(), slots, nullptr};
  }
};

/// What a buffer of these tensors takes.
[[nodiscard]] inline std::size_t bytes_of_slots(std::size_t slots, tensor_list const& tensors) {
  auto sum = std::size_t{0};
  for (auto const& tensor : tensors.all())
    sum = add_bytes(sum, byte_count(slots, tensor.elements, tensor.element_bytes));
  return sum;
}

/// The memory of a rank whose replicas have these slots.
/// @param gather, reduce what their scratch is made of
template <class Gather, class Reduction>
[[nodiscard]] memory_use add_up(transfer_plan const& plan, rank_id rank, expert_shape const& shape,
                                std::size_t slots, Gather const& gather,
                                Reduction const& reduction) {
  auto use = memory_use{};
  use.replicas = bytes_of_slots(slots, shape.replicas);
  use.partials = bytes_of_slots(plan.materialized(rank).size(), shape.partials);
  use.gather_scratch = gather.bytes();
  use.reduce_scratch = add_bytes(
      reduction_lists(plan.reduction(), rank, shape.partials.all().size()), reduction.bytes(false));
  (void)add_bytes(add_bytes(use.replicas, use.partials),
                  add_bytes(use.gather_scratch, use.reduce_scratch));
  return use;
}

[[nodiscard]] inline memory_use measure_memory(transfer_plan const& plan, rank_id rank,
                                               expert_shape const& shape) {
  auto const changes = shape.gathered(plan, rank, {}).changes_types();
  auto const slots = changes ? plan.materialized(rank) : plan.remote(rank);
  auto const partials = shape.partials.all();
  auto const back = piece_extents{plan.reduction(), tensor_sizes{partials}};
  return add_up(plan, rank, shape, slots.size(), gather_scratch{shape.gathered(plan, rank, slots)},
                reduction_scratch{plan.reduction(), rank, back, element_sizes::of_sums(partials)});
}
template <codec Codec>
[[nodiscard]] memory_use measure_memory(transfer_plan const& plan, rank_id rank,
                                        expert_shape const& shape,
                                        coded_links<Codec> const& links) {
  auto const slots = plan.materialized(rank);
  auto const traffic = coded_traffic{plan, links};
  auto const partials = shape.partials.all();
  auto const back = piece_extents{plan.reduction(), tensor_sizes{partials}};
  auto const traffic_back = coded_traffic{plan.reduction(), links};
  return add_up(plan, rank, shape, slots.size(),
                coded_gather_scratch{shape.gathered(plan, rank, slots), traffic},
                coded_reduction_scratch{plan.reduction(), rank, traffic_back, back,
                                        element_sizes::of_sums(partials)});
}

}  // namespace detail

/// The memory of a rank for parameters that are Weight at their owners and Replica where they are
/// used, and for partial gradients in Partial. Where the types differ, the rank's own experts get
/// converted copies, too: [materialized] instead of [remote].
/// @param elements the size of each tensor of one whole expert
/// @cost no allocation of what it measures
/// @throws argument_error if the bytes are too many to be counted
template <element Weight, element Replica = Weight, element Partial = Replica>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::span<std::size_t const> elements) {
  return detail::measure_memory(plan, rank,
                                detail::expert_shape::of<Weight, Replica, Partial>(elements));
}
template <element Weight, element Replica = Weight, element Partial = Replica>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::size_t elements) {
  return memory_required<Weight, Replica, Partial>(plan, rank, std::span{&elements, 1});
}
/// The same where types are known at run time, and each tensor may have its own: replicas are
/// [materialized] if any tensor changes its type.
/// @throws argument_error also if a dtype is none
[[nodiscard]] inline memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                                std::span<tensor_types const> tensors) {
  return detail::measure_memory(plan, rank, detail::expert_shape::of(tensors));
}

/// The same if both are coded: replicas are [materialized] then, whatever the types. Residuals, if there
/// are any, take what partials in float do.
template <element Weight, element Replica = Weight, element Partial = Replica, codec Codec>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::span<std::size_t const> elements,
                                         coded_links<Codec> const& links) {
  return detail::measure_memory(
      plan, rank, detail::expert_shape::of<Weight, Replica, Partial>(elements), links);
}
template <element Weight, element Replica = Weight, element Partial = Replica, codec Codec>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::size_t elements, coded_links<Codec> const& links) {
  return memory_required<Weight, Replica, Partial>(plan, rank, std::span{&elements, 1}, links);
}
template <codec Codec>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::span<tensor_types const> tensors,
                                         coded_links<Codec> const& links) {
  return detail::measure_memory(plan, rank, detail::expert_shape::of(tensors), links);
}

}  // namespace fssdp
