// SPDX-License-Identifier: Apache-2.0
/// The bits that gathers and reductions of an instance leave on a rank, over any communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/float_data.hpp"
#include "support/random_instance.hpp"

namespace support {

/// The bits of a gather and a reduction of rough numbers, twice on the same communicator.
/// @param owned where the memory for parameters and gradients of owners comes from
template <class Comm>
[[nodiscard]] std::vector<std::uint64_t> collective_bits(
    Comm& comm, random_instance const& of,
    std::pmr::memory_resource* owned = std::pmr::new_delete_resource()) {
  auto const me = comm.rank();
  auto shard = fssdp::make_shard<float>(of.layout, me, of.elements, owned);
  auto partials = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
  auto result = std::vector<std::uint64_t>{};
  for (std::size_t turn = 0; turn < 2; ++turn) {
    fill_roughly(shard, 2 * me.index() + turn + 1);
    fill_roughly(partials, 2 * me.index() + turn + 1);
    auto replicas = fssdp::make_replicas<float>(of.plan, me, of.elements);
    auto converted = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
    auto gradients = fssdp::make_shard<float>(of.layout, me, of.elements, owned);
    fssdp::sparse_all_gather(comm, of.plan, shard, replicas);
    fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients);
    fssdp::sparse_all_gather(comm, of.plan, shard, converted);
    fssdp::synchronize(comm);
    for (auto const& part : {bits(replicas), bits(converted), bits(gradients)})
      result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace support
