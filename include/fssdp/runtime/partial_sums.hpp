// SPDX-License-Identifier: Apache-2.0
/// The partial gradients of all layers, and the reductions that are under way.
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

/// Layers take room in a pool when their gradients begin to add up, and give it back when those are
/// with their owners.
class partial_sums {
 public:
  /// @pre queue and meter outlive it
  partial_sums(work_queue const& queue, iteration_meter& meter, slot_pool pool)
      : queue_{queue}, meter_{meter}, pool_{std::move(pool)} {
    if (queue.in_host_memory()) pool_.clear();
  }

  [[nodiscard]] slot_pool& pool() { return pool_; }

  /// Where the gradients of a layer add up: [materialized, elements] per tensor, zero at first.
  /// Waits for older reductions if there is no room.
  /// @param slots how many the rank takes that holds most experts
  /// @throws argument_error if there will be none
  [[nodiscard]] std::span<tensor_view const> of(materialized_layer& layer, std::size_t slots) {
    finish(layer);
    if (layer.partial_range.has_value()) return layer.partials;
    auto range = pool_.take(slots);
    while (!range.has_value() && !under_way_.empty()) {
      finish_oldest();
      range = pool_.take(slots);
    }
    require(range.has_value(), "materializer: ", pool_.slots() - pool_.used(),
            " slots are left for partial gradients; layer ", layer.id, " needs ", slots,
            ": expected other layers to be reduced before, or more partial_slots");
    layer.partial_range = range;
    layer.partials = pool_.tensors({range->first, layer.held().size()});
    layer.state.collect();
    for (auto const& tensor : layer.partials)
      queue_.clear({tensor.data, tensor.slots * tensor.stride * tensor.element_bytes});
    return layer.partials;
  }

  /// Begins to reduce partial gradients of a layer, from wherever they are.
  void reduce(materialized_layer& layer, tensor_list from) {
    meter_.expose([&] { layer.reduce(queue_, std::move(from)); });
    under_way_.push_back(&layer);
  }
  /// Waits until a layer is not being reduced.
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
