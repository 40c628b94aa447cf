// SPDX-License-Identifier: Apache-2.0
/// How much memory a plan needs, before anything is allocated.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// The bytes that a rank needs besides its shard for gathers and reductions by a plan.
struct memory_use {
  std::size_t replicas = 0;        ///< of make_replicas, or of make_partials if types differ
  std::size_t partials = 0;        ///< of make_partials
  std::size_t gather_scratch = 0;  ///< at most: converted chunks, and pieces that it relays
  /// At most; less where peers' memory is read in place, or a device decodes as it sums.
  std::size_t reduce_scratch = 0;

  [[nodiscard]] std::size_t total() const {
    return replicas + partials + gather_scratch + reduce_scratch;
  }
  friend bool operator==(memory_use const&, memory_use const&) = default;
};

namespace detail {

/// The tensors of an expert as they are owned, used and summed, without memory.
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
};

/// @param coder the codec; null: nothing is coded
[[nodiscard]] memory_use measure_memory(transfer_plan const& plan, rank_id rank,
                                        expert_shape const& shape,
                                        payload_codec const* coder = nullptr,
                                        link_class on = link_class::all);
template <codec Codec>
[[nodiscard]] memory_use measure_memory(transfer_plan const& plan, rank_id rank,
                                        expert_shape const& shape,
                                        coded_links<Codec> const& links) {
  auto const coder = payload_codec::sizes_of(links.codec);
  return measure_memory(plan, rank, shape, &coder, links.on);
}

}  // namespace detail

/// The memory of a rank for parameters that are Weight at their owners and Replica where they are
/// used, and for partial gradients in Partial. Where Weight and Replica differ, the rank's own
/// experts need converted copies as well: [materialized] instead of [remote].
/// @param elements the size of each tensor of one whole expert
/// @cost computes sizes only; allocates none of the memory
/// @throws argument_error if a size is too large for std::size_t
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
/// The same where types are known only at run time, and each tensor may have its own: replicas are
/// [materialized] if any tensor changes its type.
/// @throws argument_error also if a dtype is invalid
[[nodiscard]] inline memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                                std::span<tensor_types const> tensors) {
  return detail::measure_memory(plan, rank, detail::expert_shape::of(tensors));
}

/// The same where gathers and reductions are coded: replicas are [materialized] then, whatever the
/// types. Residuals, if there are any, need as much as partials in float.
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

#ifndef FSSDP_COMPILED
#include "fssdp/collective/memory_required_inl.hpp"
#endif
