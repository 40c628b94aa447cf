// SPDX-License-Identifier: Apache-2.0
/// The partial gradients of all layers, and the reductions in flight.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/runtime/slot_pool.hpp"
#include "fssdp/runtime/work_queue.hpp"

namespace fssdp::detail {

/// A layer takes slots from a pool for its first partial gradients, and returns them when these
/// have been summed at their owners.
class partial_sums {
 public:
  /// @pre queue and meter outlive it
  partial_sums(work_queue const& queue, iteration_meter& meter, slot_pool pool)
      : queue_{queue}, meter_{meter}, pool_{std::move(pool)} {
    if (queue.in_host_memory()) pool_.clear();
  }

  [[nodiscard]] slot_pool& pool() { return pool_; }

  /// The partial gradients of a layer: [materialized, elements] per tensor, zero at first. Waits
  /// for older reductions if there is no room.
  /// @param slots the number that the rank with most experts needs
  /// @throws argument_error if the pool has no room
  [[nodiscard]] std::span<tensor_view const> of(materialized_layer& layer, std::size_t slots) {
    finish(layer);
    if (layer.partial_range.has_value()) return layer.partials;
    auto range = pool_.take(slots);
    while (!range.has_value() && !under_way_.empty()) {
      finish_oldest();
      range = pool_.take(slots);
    }
    require(range.has_value(), "materializer: the partial gradients of layer ", layer.id, " need ",
            slots, " consecutive slots, and the pool has ", pool_.slots() - pool_.used(),
            " free; expected other layers to be reduced before, or more partial_slots");
    layer.partial_range = range;
    layer.partials = pool_.tensors({range->first, layer.held().size()});
    layer.state.collect();
    for (auto const& tensor : layer.partials)
      queue_.clear({tensor.data, tensor.slots * tensor.stride * tensor.element_bytes});
    return layer.partials;
  }

  /// Begins to reduce partial gradients of a layer, in the pool or in memory of the caller.
  void reduce(materialized_layer& layer, tensor_list from) {
    meter_.expose([&] { layer.reduce(queue_, std::move(from)); });
    under_way_.push_back(&layer);
  }
  /// Waits until the reduction of a layer is complete, if there is one.
  void finish(materialized_layer const& layer) {
    while (layer.state.gradients() == gradient_state::reducing) finish_oldest();
  }
  void finish_all() {
    while (!under_way_.empty()) finish_oldest();
  }

 private:
  void finish_oldest() {
    auto& layer = *under_way_.front();
    meter_.wait(layer.reduced, meter_.metrics.reduce_seconds);
    meter_.count_reduction(layer.moved_back);
    under_way_.erase(under_way_.begin());
    layer.state.end_reduction();
    if (auto const range = std::exchange(layer.partial_range, {})) pool_.give_back(*range);
  }

  work_queue const& queue_;
  iteration_meter& meter_;
  slot_pool pool_;
  std::vector<materialized_layer*> under_way_;  // oldest first
};

}  // namespace fssdp::detail
