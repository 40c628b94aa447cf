// SPDX-License-Identifier: Apache-2.0
/// The replicas of all layers, and the gathers in flight.
#pragma once

#include <cstddef>
#include <deque>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/runtime/slot_pool.hpp"
#include "fssdp/runtime/work_queue.hpp"

namespace fssdp::detail {

/// Gathering a layer takes slots from a pool; dropping its replicas returns them.
class gathered_replicas {
 public:
  /// @pre queue and meter outlive it
  gathered_replicas(work_queue const& queue, iteration_meter& meter, slot_pool pool)
      : queue_{queue}, meter_{meter}, pool_{std::move(pool)} {
    if (queue.in_host_memory()) pool_.clear();
  }

  [[nodiscard]] slot_pool& pool() { return pool_; }
  [[nodiscard]] slot_pool const& pool() const { return pool_; }

  /// Begins to gather a layer by its plan.
  /// @param slots the number that the rank with most replicas needs: every rank takes this many, so
  ///        that all pools stay equal and all ranks decide alike
  /// @return false if the pool has no room
  [[nodiscard]] bool gather(materialized_layer& layer, std::size_t slots) {
    auto const range = pool_.take(slots);
    if (!range.has_value()) return false;
    layer.state.begin_gather();  // stays `gathering` if the gather fails
    fill(layer.replicas, layer.in_slots(), *range);
    waiting_.push_back(&layer.replicas);
    meter_.expose([&] {
      while (!waiting_.empty() && has_agreed(*waiting_.front())) enqueue_first();
    });
    return true;
  }
  /// Enqueues all gathers that have begun. Waits if ranks are still comparing plans.
  void enqueue_all() {
    if (waiting_.empty()) return;
    meter_.expose([&] {
      while (!waiting_.empty()) enqueue_first();
    });
  }
  /// Waits until the gather of a layer is complete, if there is one.
  void finish(materialized_layer& layer) {
    if (layer.state.replicas() != replica_state::gathering) return;
    enqueue_all();
    meter_.wait(layer.replicas.gathered, meter_.metrics.gather_seconds);
    layer.state.end_gather();
    meter_.count_gather(layer.replicas.moved);
  }
  /// Gathers what calibration adds to a materialized layer, and waits for it.
  /// @param use whether all experts of the plan get slots, or only remote ones
  /// @pre the pool has that many consecutive slots
  void add(materialized_layer& layer, transfer_plan plan, std::size_t slots, slot_use use) {
    auto& added = layer.added;
    added.plan = std::move(plan);
    auto const list = use == slot_use::remote ? added.plan->remote(queue_.rank())
                                              : added.plan->materialized(queue_.rank());
    auto const range = *pool_.take(slots);
    fill(added, {list.begin(), list.end()}, range);
    enqueue_all();  // in the order in which all ranks have begun them
    meter_.expose([&] { layer.gather(queue_, added); });
    meter_.wait(added.gathered, meter_.metrics.gather_seconds);
    meter_.count_gather(added.moved);
  }
  /// Returns the slots of a layer's replicas to the pool.
  void drop(materialized_layer& layer) {
    finish(layer);  // in case the layer was never acquired
    layer.state.drop_replicas();
    for (auto* set : {&layer.replicas, &layer.added})
      if (auto const range = std::exchange(set->range, {})) pool_.give_back(*range);
  }

 private:
  /// @param slots the experts that get one, ascending
  void fill(replica_set& set, std::vector<expert_id> slots, slot_range range) const {
    set.range = range;
    set.experts = std::move(slots);
    set.tensors = pool_.tensors({range.first, set.experts.size()});
  }
  [[nodiscard]] bool has_agreed(replica_set const& set) const {
    return !queue_.announces() || queue_.has_agreed(set.plan->hash_value());
  }
  void enqueue_first() {
    auto& first = *waiting_.front();
    waiting_.pop_front();
    first.of.gather(queue_, first);
  }

  work_queue const& queue_;
  iteration_meter& meter_;
  slot_pool pool_;
  std::deque<replica_set*> waiting_;  // begun, and not yet enqueued; in order
};

}  // namespace fssdp::detail
