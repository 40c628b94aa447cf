// SPDX-License-Identifier: Apache-2.0
/// Allocates the shard of a rank.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"

namespace fssdp {

/// The sizes of the tensors of one slice, given those of a whole expert.
[[nodiscard]] std::vector<std::size_t> slice_sizes(std::span<std::size_t const> elements,
                                                   int slices);

namespace detail {

/// @throws argument_error unless there is such a rank
void check_rank(char const* function, rank_id rank, int ranks);

}  // namespace detail

/// A zeroed buffer [owned, slice_elements] per tensor, in slot order. A slice that is shorter than
/// the others is followed by padding.
/// @param elements the size of each tensor of one whole expert
/// @param resource where the memory is allocated. Shards may be elsewhere than the experts that a
///                 rank computes with: in files (file_memory) or in pinned memory
///                 (cuda_pinned_memory)
/// @throws argument_error if there is no such rank; as the buffer
template <class T, shard_layout Layout>
[[nodiscard]] expert_buffer<T> make_shard(
    Layout const& layout, rank_id rank, std::span<std::size_t const> elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  detail::check_rank("make_shard", rank, layout.ranks());
  return {layout.owned(rank).size(), slice_sizes(elements, layout.slices()), resource};
}
/// The same for experts of a single tensor.
template <class T, shard_layout Layout>
[[nodiscard]] expert_buffer<T> make_shard(
    Layout const& layout, rank_id rank, std::size_t elements,
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource()) {
  return make_shard<T>(layout, rank, std::span{&elements, 1}, resource);
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/layout/make_shard_inl.hpp"
#endif
