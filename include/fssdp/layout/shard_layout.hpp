// SPDX-License-Identifier: Apache-2.0
/// The concept of a layout: which rank owns each chunk's parameters and optimizer state.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <type_traits>
#include <vector>

#include "fssdp/core/chunk.hpp"
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

/// A regular value that assigns every chunk an owner and a slot in the owner's shard. If slices()
/// is 1, chunks are whole experts.
///
/// Law: chunk -> (owner, slot) is one to one; the slots of a rank are 0, 1, ...; owned(r) lists the
/// chunks of rank r in slot order. The owner of an expert's first slice, owner(expert), is the
/// owner of the expert: the rank that computes with it if there are no replicas. Functions are
/// called with chunks and ranks of the layout only.
template <class Layout>
concept shard_layout = detail::has_layout_functions<Layout> && std::regular<Layout>;

/// All chunks of a layout in canonical order.
template <shard_layout Layout>
[[nodiscard]] constexpr chunk_range all_chunks(Layout const& layout) {
  return {0, layout.experts() * layout.slices(), layout.slices()};
}

namespace detail {

/// Checks the law while the lists of a layout are read, rank by rank.
class layout_check {
 public:
  /// @throws argument_error unless there are as many chunks as can be counted, and 1 or more
  layout_check(int experts, int slices, int ranks);

  /// Begins the list of this rank.
  void begin(rank_id rank);
  /// @throws argument_error unless the next entry of the list is one of the chunks
  void is_one(chunk_id chunk) const;
  /// Checks the owner and the slot that the layout returns for the entry.
  /// @throws argument_error unless they are this rank and this position in its list
  void lies_at(chunk_id chunk, rank_id owner, int slot);
  /// @param size the number of entries that the layout reports
  /// @throws argument_error unless there were as many
  void end(std::size_t size) const;
  /// @throws argument_error if a chunk is in no list
  void end_all() const;

 private:
  int experts_;
  int slices_;
  int ranks_;
  rank_id rank_;
  int position_ = 0;              // in the list
  std::vector<int> listed_ = {};  // [chunks]: whether any list has it
};

/// The argument check of all layouts of the library.
void check_shape(char const* layout, int experts, int ranks, int slices);

}  // namespace detail

/// Rejects a layout that breaks the law.
/// @cost O(chunks)
/// @throws argument_error that names the chunk or the rank at fault
template <shard_layout Layout>
void check_layout(Layout const& layout) {
  auto check = detail::layout_check{layout.experts(), layout.slices(), layout.ranks()};
  for (auto const rank : first_n<rank_id>(layout.ranks())) {
    check.begin(rank);
    for (chunk_id const chunk : layout.owned(rank)) {
      check.is_one(chunk);
      check.lies_at(chunk, layout.owner(chunk), layout.slot(chunk));
    }
    check.end(static_cast<std::size_t>(layout.owned(rank).size()));
  }
  check.end_all();
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/layout/shard_layout_inl.hpp"
#endif
