// SPDX-License-Identifier: Apache-2.0
/// What a rank owns of the experts of all layers, and in which types it is moved.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_kind.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"

namespace fssdp {

namespace detail {

/// The types of what moves, as values.
struct expert_types {
  element_kind weight = element_kind::fp32;
  element_kind replica = element_kind::fp32;
  element_kind partial = element_kind::fp32;
  element_conversion to_replicas = {};
  reduction_types to_gradients = {};
};

/// @param partial that of partial gradients; by default fp32 where replicas have fewer bits
/// Whether the memory of a buffer that is given as `Buffer&&` is there when the call has returned.
template <class Buffer>
inline constexpr bool is_kept = std::is_lvalue_reference_v<Buffer> || !has_tensors<Buffer>;

template <element Weight, element Gradient>
[[nodiscard]] expert_types make_expert_types(std::optional<element_kind> replica,
                                             std::optional<element_kind> partial) {
  auto types = expert_types{.weight = kind_of<Weight>};
  types.replica = replica.value_or(kind_of<Weight>);
  types.partial = partial.value_or(accumulator_kind(types.replica));
  types.to_replicas = with_element(
      types.replica, []<class T>(std::type_identity<T>) { return make_conversion<Weight, T>(); });
  types.to_gradients = with_element(types.partial, []<class T>(std::type_identity<T>) {
    return make_reduction_types<T, Gradient>();
  });
  return types;
}

}  // namespace detail

/// The arenas of one rank: its shards of all layers, one behind the other, parameters and reduced
/// gradients. Views of memory that somebody else keeps.
class expert_shards {
 public:
  /// @param layouts who owns what: of any layouts whose slots ascend with the experts
  /// @param elements the size of each tensor of one whole expert
  /// @param weights, gradients [slots, slice_elements] per tensor, with at least the slots that the
  ///        layouts need; layer_shard says where a layer begins
  /// @throws argument_error if slots of a layout do not ascend
  template <shard_layout Layout, expert_memory Weights, expert_memory Gradients>
  expert_shards(layer_stack<Layout> const& layouts, std::span<std::size_t const> elements,
                Weights&& weights, Gradients&& gradients)
      : layouts_{as_tables(layouts)},
        elements_(elements.begin(), elements.end()),
        weights_{weights},
        gradients_{gradients},
        make_types_{&detail::make_expert_types<element_of<Weights>, element_of<Gradients>>} {
    static_assert(!is_read_only<Weights> && !is_read_only<Gradients>, "both are to be written");
    static_assert(detail::is_kept<Weights> && detail::is_kept<Gradients>,
                  "both must outlive the shards: expected no temporary that owns its memory");
  }

  [[nodiscard]] layer_stack<table_layout> const& layouts() const { return layouts_; }
  [[nodiscard]] std::span<std::size_t const> elements() const { return elements_; }
  [[nodiscard]] std::span<detail::tensor_view const> weights() const { return weights_.all(); }
  [[nodiscard]] std::span<detail::tensor_view const> gradients() const { return gradients_.all(); }
  [[nodiscard]] detail::expert_types types(std::optional<element_kind> replica,
                                           std::optional<element_kind> partial) const {
    return make_types_(replica, partial);
  }

  /// @throws argument_error unless both arenas have room for what the rank owns
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
  detail::expert_types (*make_types_)(std::optional<element_kind>, std::optional<element_kind>);
};

}  // namespace fssdp
