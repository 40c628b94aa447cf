// SPDX-License-Identifier: Apache-2.0
/// The concept of a layout: who owns each expert's parameters and optimizer state.
#pragma once

#include <concepts>
#include <ranges>
#include <type_traits>

#include "fssdp/core/index.hpp"

namespace fssdp {

namespace detail {
template <class Layout>
concept has_layout_functions = requires(Layout const& layout, expert_id expert, rank_id rank) {
  { layout.experts() } -> std::same_as<int>;
  { layout.ranks() } -> std::same_as<int>;
  { layout.owner(expert) } -> std::same_as<rank_id>;
  { layout.slot(expert) } -> std::same_as<int>;
  { layout.owned(rank) } -> std::ranges::input_range;
  { layout.owned(rank).size() } -> std::convertible_to<std::size_t>;
  { *layout.owned(rank).begin() } -> std::convertible_to<expert_id>;
};
}  // namespace detail

/// A regular value that gives every expert one owner and a slot in the owner's shard.
///
/// Law: e -> (owner(e), slot(e)) is one to one; the slots of a rank are 0, 1, ...; owned(r) lists
/// the experts of rank r in slot order.
template <class Layout>
concept shard_layout = detail::has_layout_functions<Layout> && std::regular<Layout>;

}  // namespace fssdp
