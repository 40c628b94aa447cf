// SPDX-License-Identifier: Apache-2.0
/// Memory for what a rank owns.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/core/expert_buffer.hpp"
#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// A zeroed buffer [owned, elements] per tensor, in slot order.
/// @param elements the size of each tensor of one expert
template <class T, shard_layout Layout>
[[nodiscard]] expert_buffer<T> make_shard(Layout const& layout, rank_id rank,
                                          std::span<std::size_t const> elements) {
  return {layout.owned(rank).size(), elements};
}
/// The same for experts of a single tensor.
template <class T, shard_layout Layout>
[[nodiscard]] expert_buffer<T> make_shard(Layout const& layout, rank_id rank,
                                          std::size_t elements) {
  return make_shard<T>(layout, rank, std::span{&elements, 1});
}

}  // namespace fssdp
