// SPDX-License-Identifier: Apache-2.0
/// From the buffers of ranks to chunks on plain vectors, as the naive collectives have them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "support/any_buffer.hpp"
#include "support/float_data.hpp"
#include "support/naive_collectives.hpp"
#include "support/random_instance.hpp"

namespace support {

/// Some tensor of each rank: [rank].
using one_tensor_on_ranks = std::vector<fssdp::any_const_tensor>;

/// Tensor k of the buffers of all ranks, whatever they are.
template <class Buffers>
[[nodiscard]] one_tensor_on_ranks tensor_of(Buffers const& buffers, std::size_t k) {
  auto tensors = one_tensor_on_ranks{};
  for (auto const& of_rank : buffers) tensors.push_back(any_view(of_rank.tensors()[k]));
  return tensors;
}

/// The chunks of tensor k of all shards.
[[nodiscard]] inline chunks_on_ranks owned_chunks(random_instance const& of,
                                                  one_tensor_on_ranks const& shards,
                                                  std::size_t k) {
  auto owned = chunks_on_ranks{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    for (std::size_t slot = 0; auto const chunk : of.layout.owned(rank)) {
      auto elements = read(shards[rank.index()], slot++);
      elements.resize(
          fssdp::slice_extent{of.elements[k], chunk.slice, of.layout.slices()}.elements);
      owned[{rank, chunk}] = std::move(elements);
    }
  return owned;
}
template <class Buffers>
[[nodiscard]] chunks_on_ranks owned_chunks(random_instance const& of, Buffers const& shards,
                                           std::size_t k) {
  return owned_chunks(of, tensor_of(shards, k), k);
}

/// The chunks of a tensor of the whole experts that all ranks hold.
[[nodiscard]] inline chunks_on_ranks held_chunks(random_instance const& of,
                                                 one_tensor_on_ranks const& whole) {
  auto held = chunks_on_ranks{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    for (std::size_t slot = 0; auto const expert : of.plan.materialized(rank)) {
      auto const elements = read(whole[rank.index()], slot++);
      for (auto const slice : fssdp::first_n<fssdp::slice_id>(of.layout.slices())) {
        auto const part = fssdp::slice_extent{elements.size(), slice, of.layout.slices()};
        auto const cut_out = std::span{elements}.subspan(part.first, part.elements);
        held[{rank, {expert, slice}}].assign(cut_out.begin(), cut_out.end());
      }
    }
  return held;
}
template <class Buffers>
[[nodiscard]] chunks_on_ranks held_chunks(random_instance const& of, Buffers const& whole,
                                          std::size_t k) {
  return held_chunks(of, tensor_of(whole, k));
}

/// How many elements of chunks that a rank is to have differ in a bit.
[[nodiscard]] inline int different(chunks_on_ranks const& got, chunks_on_ranks const& expected) {
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
