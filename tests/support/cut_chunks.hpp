// SPDX-License-Identifier: Apache-2.0
/// From the buffers of ranks to chunks on plain vectors, as the naive collectives have them.
#pragma once

#include <cstddef>

#include "fssdp/memory/expert_buffer.hpp"
#include "support/buffers_on_ranks.hpp"
#include "support/float_data.hpp"
#include "support/naive_collectives.hpp"
#include "support/random_instance.hpp"

namespace support {

/// Cuts tensor k of whole experts into chunks.
template <class T>
void cut(random_instance const& of, fssdp::rank_id rank, fssdp::expert_buffer<T> const& whole,
         std::size_t k, chunks_on_ranks<T>& into) {
  auto slot = std::size_t{0};
  for (auto const expert : of.plan.materialized(rank)) {
    auto const elements = whole.tensors()[k][slot++];
    for (auto const slice : fssdp::first_n<fssdp::slice_id>(of.layout.slices())) {
      auto const part = fssdp::slice_extent{elements.size(), slice, of.layout.slices()};
      auto const cut_out = elements.subspan(part.first, part.elements);
      into[{rank, {expert, slice}}].assign(cut_out.begin(), cut_out.end());
    }
  }
}
/// Takes tensor k of the chunks of a shard.
template <class T>
void take(random_instance const& of, fssdp::rank_id rank, fssdp::expert_buffer<T> const& shard,
          std::size_t k, chunks_on_ranks<T>& into) {
  auto slot = std::size_t{0};
  for (auto const chunk : of.layout.owned(rank)) {
    auto const part = fssdp::slice_extent{of.elements[k], chunk.slice, of.layout.slices()};
    auto const elements = shard.tensors()[k][slot++].first(part.elements);
    into[{rank, chunk}].assign(elements.begin(), elements.end());
  }
}

/// The chunks of tensor k of all shards.
template <class T>
[[nodiscard]] chunks_on_ranks<T> owned_chunks(random_instance const& of, per_rank<T> const& shards,
                                              std::size_t k) {
  auto owned = chunks_on_ranks<T>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    take(of, rank, shards[rank.index()], k, owned);
  return owned;
}
/// The chunks of tensor k of the whole experts that all ranks hold.
template <class T>
[[nodiscard]] chunks_on_ranks<T> held_chunks(random_instance const& of, per_rank<T> const& whole,
                                             std::size_t k) {
  auto held = chunks_on_ranks<T>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    cut(of, rank, whole[rank.index()], k, held);
  return held;
}

/// How many elements of chunks that a rank is to have differ in a bit.
template <class T>
[[nodiscard]] int different(chunks_on_ranks<T> const& got, chunks_on_ranks<T> const& expected) {
  auto count = 0;
  for (auto const& [place, elements] : got) {
    auto const& right = expected.at(place);
    if (right.size() != elements.size()) return -1;
    for (std::size_t i = 0; i < elements.size(); ++i)
      count += bits(elements[i]) != bits(right[i]) ? 1 : 0;
  }
  return count;
}

}  // namespace support
