// SPDX-License-Identifier: Apache-2.0
/// The replicas of all layers, and the gathers that are under way.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <utility>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/slot_pool.hpp"

namespace fssdp::detail {

/// Layers take room in a pool when they are gathered, and give it back when they are dropped.
/// @tparam Layer a materialized_layer
template <communicator Comm, class Layer, class Replica>
class gathered_replicas {
 public:
  /// @pre lane and meter outlive it
  gathered_replicas(Comm& lane, iteration_meter& meter, std::size_t slots,
                    std::span<std::size_t const> elements, std::pmr::memory_resource* memory)
      : lane_{lane}, meter_{meter}, pool_{slots, elements, memory} {
    if constexpr (in_host_memory<Comm>) pool_.clear();
  }

  [[nodiscard]] slot_pool<Replica>& pool() { return pool_; }
  [[nodiscard]] slot_pool<Replica> const& pool() const { return pool_; }

  /// Begins to gather a layer by its plan.
  /// @param slots how many the rank takes that needs most: all pools stay alike, and all ranks
  ///        decide alike
  /// @return false if there is no room
  template <shard_layout Layout, class Setting>
  [[nodiscard]] bool gather(Layer& layer, Layout const& layout, std::size_t slots,
                            Setting const& with) {
    auto const range = pool_.take(slots);
    if (!range.has_value()) return false;
    layer.is_gathering = true;  // until it is known to have come: not if this throws
    meter_.expose(lane_, [&] {
      layer.gather(lane_, layer.plan, layer.replicas, layer.in_slots(layout, lane_.rank()), *range,
                   pool_, with);
    });
    return true;
  }
  /// Waits until a layer is not being gathered.
  void finish(Layer& layer) {
    if (!layer.is_gathering) return;
    meter_.wait(lane_, layer.replicas.gathered, meter_.metrics.gather_seconds);
    layer.is_gathering = false;
    meter_.count_gather(layer.replicas.moved);
  }
  /// Gathers what calibration adds to a layer that is there, and waits for it.
  /// @pre the pool has so many slots in a row
  template <class Setting>
  void add(Layer& layer, transfer_plan plan, std::size_t slots, Setting const& with) {
    auto const rank = lane_.rank();
    layer.added_plan = std::move(plan);
    auto const list =
        Layer::in_place ? layer.added_plan->remote(rank) : layer.added_plan->materialized(rank);
    auto const range = *pool_.take(slots);
    meter_.expose(lane_, [&] {
      layer.gather(lane_, layer.added_plan, layer.added, {list.begin(), list.end()}, range, pool_,
                   with);
    });
    meter_.wait(lane_, layer.added.gathered, meter_.metrics.gather_seconds);
    meter_.count_gather(layer.added.moved);
  }
  /// Gives the replicas of a layer back to the pool.
  void drop(Layer& layer) {
    finish(layer);  // if nobody has acquired it
    layer.experts.reset();
    for (auto* set : {&layer.replicas, &layer.added})
      if (auto const range = std::exchange(set->range, {})) pool_.give_back(*range);
  }

 private:
  Comm& lane_;
  iteration_meter& meter_;
  slot_pool<Replica> pool_;
};

}  // namespace fssdp::detail
