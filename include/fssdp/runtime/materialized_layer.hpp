// SPDX-License-Identifier: Apache-2.0
/// One layer during an iteration: its plan, its replicas, its partial gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/expert_tensor.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/plan/held.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/runtime/slot_pool.hpp"
#include "fssdp/runtime/timed_work.hpp"

namespace fssdp::detail {

/// Replicas in a range of a pool.
template <class Replica>
struct replica_set {
  std::optional<slot_range> range;              // taken of the pool
  std::vector<expert_id> experts;               // in its first slots, ascending
  std::vector<expert_tensor<Replica>> tensors;  // those slots
  timed_work gathered;

  [[nodiscard]] bool holds(expert_id expert) const {
    return range.has_value() && std::ranges::binary_search(experts, expert);
  }
};

template <class Weight, class Gradient, class Replica, shard_layout Layout, class Coding>
struct materialized_layer {
  materialized_layer(layer_id which, int expert_count, int window_length, trace_recorder* recorder)
      : id{which}, window{expert_count, window_length}, trace{recorder} {}

  /// Finds its part of the arenas. What is known about placements is forgotten.
  void look_at(layer_stack<Layout> const& stack, rank_id rank,
               std::vector<expert_tensor<Weight>> const& all_weights,
               std::vector<expert_tensor<Gradient>> const& all_gradients) {
    weights = layer_shard(stack, id, rank, all_weights);
    gradients = layer_shard(stack, id, rank, all_gradients);
    plan.reset();
  }

  /// Begins to gather by a plan into a range.
  template <communicator Comm>
  void gather(Comm& lane, transfer_plan const& by, replica_set<Replica>& into, slot_range range,
              slot_pool<Replica>& pool, Coding const& coding, scratch_memory& scratch) {
    auto const rank = lane.rank();
    auto const slots = in_place ? by.foreign(rank) : by.held(rank);
    into.range = range;
    into.experts.assign(slots.begin(), slots.end());
    into.tensors = pool.tensors({range.first, slots.size()});
    into.gathered.submit(lane, as(gather_lane, "gather", by), [&] {
      sparse_all_gather(lane, by, weights, into.tensors, coding.gather, {.scratch = &scratch});
    });
  }

  /// Begins to reduce the partial gradients.
  template <communicator Comm>
  void reduce(Comm& lane, Coding const& coding, scratch_memory& scratch) {
    reduced.submit(lane, as(reduce_lane, "reduce", *plan), [&] {
      sparse_reduce_scatter(
          lane, std::as_const(*plan), partials, gradients, coding.reduce,
          {.into = has_gradients ? output::accumulate : output::write, .scratch = &scratch});
    });
    has_gradients = true;
  }

  /// Takes in the loads of a micro-batch: of the experts and, if they are known, of the ranks.
  void record(std::span<std::uint64_t const> loads, std::span<std::uint64_t const> device_loads) {
    auto const add = [](expert_loads& to, std::span<std::uint64_t const> from) {
      to.resize(std::max(to.size(), from.size()));
      for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
    };
    add(recorded, loads);
    add(recorded_devices, device_loads);
  }
  /// Nothing of this iteration is left but its loads in the window.
  void end_iteration() {
    if (!recorded.empty()) window.push(recorded);
    recorded.clear();
    recorded_devices.clear();
    is_placed = false;
    was_released = false;
    has_gradients = false;
  }
  /// Waits for all work that uses its memory.
  void settle() {
    for (auto* work : {&replicas.gathered, &added.gathered, &reduced}) (void)work->wait();
  }

  /// One view of all that the rank holds: its own experts in place, the others in their slots.
  void show(rank_id rank) {
    auto tensors = std::vector<std::span<Replica const>>{};
    auto const add = [&](auto const& from, std::size_t slot) {
      for (auto const& tensor : from) tensors.push_back(tensor[slot]);
    };
    for (auto const expert : plan->held(rank)) {
      if constexpr (in_place) {
        if (plan->slices() == 1 && plan->owner(expert) == rank) {
          add(weights, static_cast<std::size_t>(plan->owner_slot(expert)));
          continue;
        }
      }
      auto const& set = replicas.holds(expert) ? replicas : added;
      add(set.tensors, transfer_plan::slot_in(std::span{set.experts}, expert));
    }
    experts.emplace(plan->held(rank), std::move(tensors));
  }

  /// Whether owners compute with their shards: else with copies that are what the others get.
  static constexpr auto in_place =
      std::is_same_v<Weight, Replica> && std::is_same_v<decltype(Coding::gather), uncoded>;

  layer_id id;
  load_window window;
  expert_loads recorded;          // of all micro-batches so far
  expert_loads recorded_devices;  // likewise, [ranks]
  std::vector<expert_tensor<Weight>> weights;
  std::vector<expert_tensor<Gradient>> gradients;

  std::optional<transfer_plan> plan;  // of this iteration, or of an earlier one
  bool is_placed = false;             // the plan is that of this iteration
  replica_set<Replica> replicas;
  std::optional<transfer_plan> added_plan;  // by calibration, to what was there
  replica_set<Replica> added;
  std::optional<held_experts<Replica const>> experts;
  std::vector<int> users;     // micro-batches
  bool was_released = false;  // by all of them, in this iteration

  std::optional<slot_range> partial_range;
  std::vector<expert_tensor<Replica>> partials;
  timed_work reduced;
  bool is_reducing = false;
  bool has_gradients = false;

  trace_recorder* trace;  // may be null

 private:
  [[nodiscard]] timed_work::record_as as(trace_lane row, static_text name,
                                         transfer_plan const& by) const {
    return {trace, {row, name, {.layer = id.value(), .plan = by.hash_value()}}};
  }
};

}  // namespace fssdp::detail
