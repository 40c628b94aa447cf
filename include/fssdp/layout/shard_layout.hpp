// SPDX-License-Identifier: Apache-2.0
/// The concept of a layout: who owns each chunk's parameters and optimizer state.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <ranges>
#include <type_traits>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

namespace detail {
template <class Layout>
concept has_layout_functions = requires(Layout const& layout, chunk_id chunk, rank_id rank) {
  { layout.experts() } -> std::same_as<int>;
  { layout.slices() } -> std::same_as<int>;
  { layout.ranks() } -> std::same_as<int>;
  { layout.owner(chunk) } -> std::same_as<rank_id>;
  { layout.slot(chunk) } -> std::same_as<int>;
  { layout.owned(rank) } -> std::ranges::input_range;
  { layout.owned(rank).size() } -> std::convertible_to<std::size_t>;
  { *layout.owned(rank).begin() } -> std::convertible_to<chunk_id>;
};
}  // namespace detail

/// A regular value that gives every chunk one owner and a slot in the owner's shard. Experts are
/// whole where slices() is 1.
///
/// Law: chunk -> (owner, slot) is one to one; the slots of a rank are 0, 1, ...; owned(r) lists the
/// chunks of rank r in slot order. The owner of an expert's first slice, owner(expert), is the
/// expert's owner: the rank that computes with it when nobody has a replica. Functions take chunks
/// and ranks that the layout has.
template <class Layout>
concept shard_layout = detail::has_layout_functions<Layout> && std::regular<Layout>;

/// All chunks of a layout in canonical order.
template <shard_layout Layout>
[[nodiscard]] constexpr chunk_range all_chunks(Layout const& layout) {
  return {0, layout.experts() * layout.slices(), layout.slices()};
}

/// Refuses a layout that breaks the law.
/// @cost O(chunks)
/// @throws argument_error that names the chunk or the rank at fault
template <shard_layout Layout>
void check_layout(Layout const& layout) {
  detail::require(layout.experts() >= 1 && layout.slices() >= 1 && layout.ranks() >= 1,
                  "layout: ", layout.experts(), " experts in ", layout.slices(), " slices on ",
                  layout.ranks(), " ranks; expected 1 or more of each");
  detail::require(layout.experts() <= std::numeric_limits<int>::max() / layout.slices(),
                  "layout: ", layout.experts(), " experts in ", layout.slices(),
                  " slices; expected at most ", std::numeric_limits<int>::max(), " chunks");
  auto const chunks = all_chunks(layout);
  auto listed = std::vector<bool>(chunks.size());
  for (auto const rank : first_n<rank_id>(layout.ranks())) {
    auto position = 0;
    for (chunk_id const chunk : layout.owned(rank)) {
      auto const& [expert, slice] = chunk;
      detail::require(expert.value() >= 0 && expert.value() < layout.experts() &&
                          slice.value() >= 0 && slice.value() < layout.slices(),
                      "layout: rank ", rank, " owns slice ", slice, " of expert ", expert,
                      "; expected slices below ", layout.slices(), " of experts below ",
                      layout.experts());
      detail::require(layout.owner(chunk) == rank && layout.slot(chunk) == position,
                      "layout: slice ", slice, " of expert ", expert, " is listed at slot ",
                      position, " of rank ", rank, ", but is said to be at slot ",
                      layout.slot(chunk), " of rank ", layout.owner(chunk));
      listed[expert.index() * static_cast<std::size_t>(layout.slices()) + slice.index()] = true;
      ++position;
    }
    auto const size = static_cast<std::size_t>(layout.owned(rank).size());
    detail::require(size == static_cast<std::size_t>(position), "layout: rank ", rank, " owns ",
                    size, " chunks, but lists ", position);
  }
  auto next = listed.begin();
  for (auto const chunk : chunks)
    detail::require(*next++, "layout: slice ", chunk.slice, " of expert ", chunk.expert,
                    " is listed by no rank; expected every chunk to have one owner");
}

namespace detail {

/// What every layout of the library refuses.
inline void check_shape(char const* layout, int experts, int ranks, int slices) {
  require(experts >= 1, layout, ": ", experts, " experts; expected 1 or more");
  require(ranks >= 1, layout, ": ", ranks, " ranks; expected 1 or more");
  require(slices >= 1, layout, ": ", slices, " slices; expected 1 or more");
  require(experts <= std::numeric_limits<int>::max() / slices, layout, ": ", experts,
          " experts in ", slices, " slices; expected at most ", std::numeric_limits<int>::max(),
          " chunks");
}

}  // namespace detail
}  // namespace fssdp
