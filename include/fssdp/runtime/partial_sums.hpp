// SPDX-License-Identifier: Apache-2.0
/// The partial gradients of all layers, and the reductions that are under way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/slot_pool.hpp"

namespace fssdp::detail {

/// Layers take room in a pool when their gradients begin to add up, and give it back when those are
/// with their owners.
/// @tparam Layer a materialized_layer
template <communicator Comm, class Layer, class Replica>
class partial_sums {
 public:
  /// @pre lane and meter outlive it
  partial_sums(Comm& lane, iteration_meter& meter, std::size_t slots,
               std::span<std::size_t const> elements, std::pmr::memory_resource* memory)
      : lane_{lane}, meter_{meter}, pool_{slots, elements, memory} {
    if constexpr (in_host_memory<Comm>) pool_.clear();
  }

  [[nodiscard]] slot_pool<Replica>& pool() { return pool_; }

  /// Where the gradients of a layer add up: [materialized, elements] per tensor, zero at first. Waits for
  /// older reductions if there is no room.
  /// @param slots how many the rank takes that holds most experts
  /// @throws argument_error if there will be none
  [[nodiscard]] std::span<expert_tensor<Replica> const> of(Layer& layer, std::size_t slots) {
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
    layer.partials = pool_.tensors({range->first, layer.held.size()});
    for (auto const& tensor : layer.partials)
      clear(std::span{tensor.data, tensor.slots * tensor.stride});
    return layer.partials;
  }

  /// Begins to reduce partial gradients of a layer, from wherever they are.
  template <class Partials, class Setting>
  void reduce(Layer& layer, Partials from, Setting const& with) {
    meter_.expose(lane_, [&] { layer.reduce(lane_, from, with); });
    under_way_.push_back(&layer);
  }
  /// Waits until a layer is not being reduced.
  void finish(Layer const& layer) {
    while (layer.is_reducing) finish_oldest();
  }
  void finish_all() {
    while (!under_way_.empty()) finish_oldest();
  }

 private:
  void clear(std::span<Replica> memory) {
    if constexpr (side_lane<Comm>)
      lane_.clear(std::as_writable_bytes(memory));
    else
      std::ranges::fill(memory, Replica{});
  }
  void finish_oldest() {
    auto& layer = *under_way_.front();
    meter_.wait(lane_, layer.reduced, meter_.metrics.reduce_seconds);
    meter_.count_reduction(layer.moved_back);
    under_way_.erase(under_way_.begin());
    layer.is_reducing = false;
    if (auto const range = std::exchange(layer.partial_range, {})) pool_.give_back(*range);
  }

  Comm& lane_;
  iteration_meter& meter_;
  slot_pool<Replica> pool_;
  std::vector<Layer*> under_way_;  // oldest first
};

}  // namespace fssdp::detail
