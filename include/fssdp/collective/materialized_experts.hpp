// SPDX-License-Identifier: Apache-2.0
/// Buffers for replicas and partial gradients, and one view of all experts that a rank holds.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

/// A buffer for experts of a plan, of equal size or not.
template <class T>
[[nodiscard]] expert_buffer<T> buffer_for(std::span<expert_id const> experts,
                                          std::span<std::size_t const> offsets,
                                          std::span<std::size_t const> elements,
                                          std::pmr::memory_resource* resource) {
  if (offsets.empty()) return {experts.size(), elements, resource};
  return {offsets, elements, resource};
}

}  // namespace detail

/// A zeroed buffer [owned, slice_elements] per tensor, for the shard of a rank. As make_shard of
/// the layout, and also for plans whose experts differ in size.
/// @param elements the size of each tensor of one whole expert; of one row where experts have rows
template <class T>
[[nodiscard]] expert_buffer<T> make_shard(
    transfer_plan const& plan, rank_id rank, std::span<std::size_t const> elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  detail::check_rank("make_shard", rank, plan.ranks());
  if (plan.has_rows()) return {plan.owned_offsets(rank), elements, resource};
  return {plan.owned_count(rank), slice_sizes(elements, plan.slices()), resource};
}
template <class T>
[[nodiscard]] expert_buffer<T> make_shard(
    transfer_plan const& plan, rank_id rank, std::size_t elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  return make_shard<T>(plan, rank, std::span{&elements, 1}, resource);
}

/// A zeroed buffer [remote, elements] per tensor, for the replicas of a plan.
/// @param elements the size of each tensor, as for make_shard
/// @param resource where the memory is allocated, as for make_shard
template <class T>
[[nodiscard]] expert_buffer<T> make_replicas(
    transfer_plan const& plan, rank_id rank, std::span<std::size_t const> elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  detail::check_rank("make_replicas", rank, plan.ranks());
  return detail::buffer_for<T>(plan.remote(rank), plan.remote_offsets(rank), elements, resource);
}
template <class T>
[[nodiscard]] expert_buffer<T> make_replicas(
    transfer_plan const& plan, rank_id rank, std::size_t elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  return make_replicas<T>(plan, rank, std::span{&elements, 1}, resource);
}

/// A zeroed buffer [materialized, elements] per tensor, ascending experts: for partial gradients,
/// or for the parameters of all experts that a rank holds, contiguous.
template <class T>
[[nodiscard]] expert_buffer<T> make_partials(
    transfer_plan const& plan, rank_id rank, std::span<std::size_t const> elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  detail::check_rank("make_partials", rank, plan.ranks());
  return detail::buffer_for<T>(plan.materialized(rank), plan.materialized_offsets(rank), elements,
                               resource);
}
template <class T>
[[nodiscard]] expert_buffer<T> make_partials(
    transfer_plan const& plan, rank_id rank, std::size_t elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  return make_partials<T>(plan, rank, std::span{&elements, 1}, resource);
}

namespace detail {

/// The shape of a tensor of a buffer.
struct slots_and_elements {
  std::size_t slots = 0;
  std::size_t elements = 0;
};
/// Where an expert that a rank holds is: in its shard, or among its replicas.
struct expert_place {
  bool is_own = false;
  std::size_t slot = 0;
};
/// @pre the rank holds it
[[nodiscard]] expert_place expert_place_of(transfer_plan const& plan, rank_id rank,
                                           expert_id expert);

/// Argument checks of view_experts.
/// @throws argument_error unless shard and replicas have as many tensors
void check_counts(std::size_t weights, std::size_t replicas);
/// @throws argument_error unless the shapes of tensor k are those of a shard and of replicas
void check_view(transfer_plan const& plan, rank_id rank, std::size_t k,
                slots_and_elements const& weights, slots_and_elements const& replicas);
/// @throws argument_error unless there is a slot for every expert that the rank holds
void check_view(transfer_plan const& plan, rank_id rank, std::size_t slots);

}  // namespace detail

/// The experts that a rank computes with: its own whole experts in place, all others in its
/// replicas.
template <class T>
class materialized_experts {
 public:
  struct materialized_expert {
    expert_id id;
    std::span<std::span<T> const> tensors;  ///< the elements of w1, b1, w2, ...
  };

  materialized_experts(std::span<expert_id const> ids, std::vector<std::span<T>> tensors)
      : ids_{ids}, tensors_{std::move(tensors)} {}

  /// How many experts the rank holds.
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  /// Expert i in ascending order: the index i is the same in the rank's partial gradients.
  [[nodiscard]] materialized_expert operator[](std::size_t i) const {
    auto const per_expert = tensors_.size() / ids_.size();
    return {ids_[i], {tensors_.data() + i * per_expert, per_expert}};
  }

 private:
  std::span<expert_id const> ids_;  // of the plan, or of a layer
  std::vector<std::span<T>> tensors_;
};

/// One view of the shard and the replicas of a rank, ascending by expert.
/// @pre weights [owned, slice_elements], replicas [remote, elements]; plan and buffers outlive the
///      view
/// @cost no copy of parameters; one allocation
/// @throws argument_error if a buffer has another shape
template <expert_memory Weights, expert_memory Replicas>
[[nodiscard]] auto view_experts(transfer_plan const& plan, rank_id rank, Weights const& weights,
                                Replicas const& replicas) {
  using T = element_of<Weights const>;
  detail::check_rank("view_experts", rank, plan.ranks());
  auto const own = tensors_of(weights);
  auto const other = tensors_of(replicas);
  detail::check_counts(own.size(), other.size());
  for (std::size_t k = 0; k < own.size(); ++k)
    detail::check_view(plan, rank, k, {own[k].slots, own[k].elements},
                       {other[k].slots, other[k].elements});
  auto tensors = std::vector<std::span<T const>>{};
  tensors.reserve(plan.materialized(rank).size() * own.size());
  for (auto const expert : plan.materialized(rank)) {
    auto const from = detail::expert_place_of(plan, rank, expert);
    for (std::size_t k = 0; k < own.size(); ++k)
      tensors.push_back(from.is_own ? own[k][from.slot] : other[k][from.slot]);
  }
  return materialized_experts<T const>{plan.materialized(rank), std::move(tensors)};
}

/// The same for one buffer of all experts that the rank holds, [materialized, elements].
template <expert_memory Experts>
[[nodiscard]] auto view_experts(transfer_plan const& plan, rank_id rank, Experts const& experts) {
  using T = element_of<Experts const>;
  auto const all = tensors_of(experts);
  auto tensors = std::vector<std::span<T const>>{};
  tensors.reserve(plan.materialized(rank).size() * all.size());
  for (auto const& tensor : all) detail::check_view(plan, rank, tensor.slots);
  for (std::size_t slot = 0; slot < plan.materialized(rank).size(); ++slot)
    for (auto const& tensor : all) tensors.push_back(tensor[slot]);
  return materialized_experts<T const>{plan.materialized(rank), std::move(tensors)};
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/materialized_experts_inl.hpp"
#endif
