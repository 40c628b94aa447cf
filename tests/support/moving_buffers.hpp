// SPDX-License-Identifier: Apache-2.0
/// What a rank owns, which goes to other owners and back.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <vector>

#include "fssdp/collective/reshard.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/differences.hpp"
#include "support/random_layouts.hpp"

namespace support {

/// Parameters of two tensors and moments of one, in different types.
struct moving_buffers {
  fssdp::expert_buffer<float> weights;
  fssdp::expert_buffer<double> moments;

  explicit moving_buffers(std::size_t slots,
                          std::pmr::memory_resource* moments_from = std::pmr::new_delete_resource())
      : weights{slots, std::vector<std::size_t>{3, 2}},
        moments{slots, std::vector<std::size_t>{4}, moments_from} {}

  /// Calls visit(element, number that belongs there) for all elements of a rank's chunks.
  template <class Layout, class Visit>
  void for_each(Layout const& layout, fssdp::rank_id rank, Visit visit) {
    auto slot = std::size_t{0};
    for (fssdp::chunk_id const chunk : layout.owned(rank)) {
      auto number = chunk.expert.value() * 1000 + chunk.slice.value() * 100;
      for (auto const& tensor : weights.tensors())
        for (auto& value : tensor[slot]) visit(value, ++number);
      for (auto& value : moments.tensors()[0][slot]) visit(value, ++number);
      ++slot;
    }
  }
  template <class Layout>
  void fill(Layout const& layout, fssdp::rank_id rank) {
    for_each(layout, rank, [](auto& value, int number) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(number);
    });
  }
  template <class Layout>
  [[nodiscard]] differences wrong(Layout const& layout, fssdp::rank_id rank) {
    auto found = differences{};
    auto n = 0;
    for_each(layout, rank, [&](auto value, int number) {
      found.compare(static_cast<double>(value), number, "rank ", rank, ", element ", n++,
                    " of all that it owns");
    });
    return found;
  }
};

/// There, then there and back: what a rank finds wrong.
template <class Comm>
[[nodiscard]] differences wrong_after_reshard(
    Comm& comm, random_layouts const& of,
    std::pmr::memory_resource* moments_from = std::pmr::new_delete_resource()) {
  auto const plan = fssdp::reshard_plan{of.from, of.to, {.scratch_slots = of.scratch_slots}};
  auto const back = fssdp::reshard_plan{of.to, of.from};
  auto shard = moving_buffers{plan.slots(comm.rank()), moments_from};
  auto scratch = fssdp::scratch_memory{};
  shard.fill(of.from, comm.rank());
  fssdp::reshard(comm, plan, fssdp::bytes_of(shard.weights, shard.moments), {.scratch = &scratch});
  fssdp::synchronize(comm);
  auto const wrong = shard.wrong(of.to, comm.rank());
  fssdp::reshard(comm, back, shard.weights);
  fssdp::reshard(comm, back, shard.moments);
  fssdp::synchronize(comm);
  return wrong + shard.wrong(of.from, comm.rank());
}

}  // namespace support
