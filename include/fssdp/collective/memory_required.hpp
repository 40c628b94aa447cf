// SPDX-License-Identifier: Apache-2.0
/// What a plan takes, before anything is allocated.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

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
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
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

/// The memory of a rank whose replicas have these slots.
/// @param gather, reduce what their scratch is made of
template <element Replica, element Partial, class Gather, class Reduction>
[[nodiscard]] memory_use add_up(transfer_plan const& plan, rank_id rank,
                                std::span<std::size_t const> elements, std::size_t slots,
                                Gather const& gather, Reduction const& reduction) {
  auto use = memory_use{};
  use.replicas = expert_buffer<Replica>::bytes_for(slots, elements);
  use.partials = expert_buffer<Partial>::bytes_for(plan.materialized(rank).size(), elements);
  use.gather_scratch = gather.bytes();
  use.reduce_scratch =
      add_bytes(reduction_lists(plan.reduction(), rank, elements.size()), reduction.bytes(false));
  (void)add_bytes(add_bytes(use.replicas, use.partials),
                  add_bytes(use.gather_scratch, use.reduce_scratch));
  return use;
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
  constexpr auto same_type = std::is_same_v<Weight, Replica>;
  auto const slots = same_type ? plan.remote(rank) : plan.materialized(rank);
  auto const sizes = detail::tensor_sizes{elements};
  auto const extents = detail::piece_extents{plan, sizes};
  auto const back = detail::piece_extents{plan.reduction(), sizes};
  auto const converted = same_type ? 0 : detail::converted_chunks(plan, rank, slots);
  return detail::add_up<Replica, Partial>(
      plan, rank, elements, slots.size(),
      detail::gather_scratch{plan, rank, converted, extents, sizeof(Replica)},
      detail::reduction_scratch{plan.reduction(), rank, back, sizeof(accumulator_t<Partial>)});
}
template <element Weight, element Replica = Weight, element Partial = Replica>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::size_t elements) {
  return memory_required<Weight, Replica, Partial>(plan, rank, std::span{&elements, 1});
}

/// The same if both are coded: replicas are [materialized] then, whatever the types. Residuals, if there
/// are any, take what partials in float do.
template <element Weight, element Replica = Weight, element Partial = Replica, codec Codec>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::span<std::size_t const> elements,
                                         coded_links<Codec> const& links) {
  auto const sizes = detail::tensor_sizes{elements};
  auto const extents = detail::piece_extents{plan, sizes};
  auto const traffic = detail::coded_traffic{plan, links};
  auto const back = detail::piece_extents{plan.reduction(), sizes};
  auto const traffic_back = detail::coded_traffic{plan.reduction(), links};
  return detail::add_up<Replica, Partial>(
      plan, rank, elements, plan.materialized(rank).size(),
      detail::coded_gather_scratch{plan, rank, traffic, !std::is_same_v<Weight, Replica>, extents,
                                   sizeof(Replica)},
      detail::coded_reduction_scratch{plan.reduction(), rank, traffic_back, back,
                                      sizeof(accumulator_t<Partial>)});
}
template <element Weight, element Replica = Weight, element Partial = Replica, codec Codec>
[[nodiscard]] memory_use memory_required(transfer_plan const& plan, rank_id rank,
                                         std::size_t elements, coded_links<Codec> const& links) {
  return memory_required<Weight, Replica, Partial>(plan, rank, std::span{&elements, 1}, links);
}

}  // namespace fssdp
