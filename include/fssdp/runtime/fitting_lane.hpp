// SPDX-License-Identifier: Apache-2.0
/// Refuses what a materializer cannot work with, before it allocates anything.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/runtime/materializer_options.hpp"

namespace fssdp::detail {

/// The lane, if layouts, arenas and options fit it and each other.
/// @throws argument_error if not
template <communicator Comm, shard_layout Layout, class Weight, class Gradient>
[[nodiscard]] Comm& fitting_lane(Comm& lane, layer_stack<Layout> const& layouts,
                                 std::span<std::size_t const> elements,
                                 std::span<expert_tensor<Weight> const> weights,
                                 std::span<expert_tensor<Gradient> const> gradients,
                                 materializer_options const& options) {
  require(lane.size() == layouts.ranks(), "materializer: ", lane.size(),
          " ranks; the layouts are for ", layouts.ranks());
  check_options<Comm>(options);
  auto const slots = layouts.slots(lane.rank());
  auto const own_weights = tensor_list{weights};
  auto const own_gradients = tensor_list{gradients};
  check_arena("materializer", {"weights", own_weights.all()}, elements, layouts.slices(), slots);
  check_arena("materializer", {"gradients", own_gradients.all()}, elements, layouts.slices(),
              slots);
  return lane;
}

}  // namespace fssdp::detail
