// SPDX-License-Identifier: Apache-2.0
/// The shards of one rank for all layers, and the types in which they are moved.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"

namespace fssdp {

namespace detail {

/// Whether the memory of a buffer that is passed as `Buffer&&` still exists after the call.
template <class Buffer>
inline constexpr bool is_kept = std::is_lvalue_reference_v<Buffer> || !has_tensors<Buffer>;

/// Rejects buffers whose element type has no dtype, or that are read-only.
template <tensor_memory Buffer>
[[nodiscard]] tensor_list list_arena(Buffer& buffer) {
  static_assert(!is_read_only<Buffer>, "expected arenas that can be written");
  if constexpr (!any_memory<Buffer>)
    static_assert(element<element_of<Buffer>>, "expected arenas of an element type with a dtype");
  return tensor_list{buffer};
}

}  // namespace detail

/// The arenas of one rank: its shards of all layers, one after the other, for parameters and for
/// reduced gradients. They are views; the caller keeps the memory. Where a tensor has a table of
/// places, one for each slot, entries may change between iterations: those of weights from `step`
/// until the next prefetch or acquire; those of gradients until the next reduce of their layer, by
/// which they must not be null.
class expert_shards {
 public:
  /// @param layouts who owns what: layouts whose slots ascend with the experts
  /// @param elements the size of each tensor of one whole expert
  /// @param weights, gradients [slots, slice_elements] per tensor, of any types (also any_tensor),
  ///        with at least the slots that the layouts need; layer_shard says where a layer begins
  /// @throws argument_error if the slots of a layout do not ascend with the experts
  template <shard_layout Layout, tensor_memory Weights, tensor_memory Gradients>
  expert_shards(layer_stack<Layout> const& layouts, std::span<std::size_t const> elements,
                Weights&& weights, Gradients&& gradients)
      : layouts_{as_tables(layouts)},
        elements_(elements.begin(), elements.end()),
        weights_{detail::list_arena(weights)},
        gradients_{detail::list_arena(gradients)} {
    static_assert(detail::is_kept<Weights> && detail::is_kept<Gradients>,
                  "both must outlive the shards: expected no temporary that owns its memory");
  }

  [[nodiscard]] layer_stack<table_layout> const& layouts() const { return layouts_; }
  [[nodiscard]] std::span<std::size_t const> elements() const { return elements_; }
  [[nodiscard]] std::span<detail::tensor_view const> weights() const { return weights_.all(); }
  [[nodiscard]] std::span<detail::tensor_view const> gradients() const { return gradients_.all(); }
  /// The tensors of a whole expert.
  /// @param replica, partial the types of replicas and partials; empty: the default of the options
  [[nodiscard]] std::vector<tensor_types> types(std::optional<dtype> replica,
                                                std::optional<dtype> partial) const {
    auto list = std::vector<tensor_types>{};
    for (std::size_t k = 0; k < elements_.size(); ++k) {
      auto const weight = weights()[k].type;
      auto const computed = replica.value_or(weight);
      list.push_back({elements_[k], weight, computed, partial.value_or(accumulator_of(computed))});
    }
    return list;
  }

  /// @throws argument_error unless both arenas have slots for all that the rank owns
  void check(rank_id rank) const {
    auto const slots = layouts_.slots(rank);
    detail::check_arena("materializer", {"weights", weights()}, elements_, layouts_.slices(),
                        slots);
    detail::check_arena("materializer", {"gradients", gradients()}, elements_, layouts_.slices(),
                        slots);
  }

 private:
  template <shard_layout Layout>
  [[nodiscard]] static layer_stack<table_layout> as_tables(layer_stack<Layout> const& layouts) {
    if constexpr (std::same_as<Layout, table_layout>) {
      return layouts;
    } else {
      auto tables = std::vector<table_layout>{};
      for (auto const& layout : layouts.by_layer()) {
        tables.push_back(as_table(layout));
        for (auto const chunk : all_chunks(layout))
          detail::require(tables.back().slot(chunk) == layout.slot(chunk), "expert_shards: slice ",
                          chunk.slice, " of expert ", chunk.expert, " is in slot ",
                          layout.slot(chunk), " of its owner; expected ", tables.back().slot(chunk),
                          ", as slots ascend with the experts");
      }
      return layer_stack<table_layout>{std::move(tables)};
    }
  }

  layer_stack<table_layout> layouts_;
  std::vector<std::size_t> elements_;
  detail::tensor_list weights_;
  detail::tensor_list gradients_;
};

}  // namespace fssdp
