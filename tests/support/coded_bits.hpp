// SPDX-License-Identifier: Apache-2.0
/// The bits that coded gathers and reductions leave on a rank, over any communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "support/coded_instance.hpp"
#include "support/float_data.hpp"

namespace support {

/// The bits of a gather and of two reductions with feedback, twice, with one scratch for all.
/// @param owned as above
template <class Comm>
[[nodiscard]] std::vector<std::uint64_t> coded_bits(
    Comm& comm, coded_instance const& of,
    std::pmr::memory_resource* owned = std::pmr::new_delete_resource()) {
  auto const me = comm.rank();
  auto shard = fssdp::make_shard<float>(of.layout, me, of.elements, owned);
  auto partials = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
  auto residuals = fssdp::make_partials<float>(of.plan, me, of.elements);
  auto scratch = fssdp::scratch_memory{};
  auto result = std::vector<std::uint64_t>{};
  for (std::size_t turn = 0; turn < 2; ++turn) {
    fill_like_gradients(shard, 2 * me.index() + turn + 1);
    fill_like_gradients(partials, 2 * me.index() + turn + 1);
    auto all = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
    auto gradients = fssdp::make_shard<float>(of.layout, me, of.elements, owned);
    auto others = fssdp::make_shard<double>(of.layout, me, of.elements);
    auto const links = fssdp::coded_links{fssdp::fp8_e5m2_codec{}, of.on};
    fssdp::sparse_all_gather(comm, of.plan, shard, all,
                             fssdp::coded_links{fssdp::int8_codec{}, of.on}, {.scratch = &scratch});
    fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients, links, residuals,
                                 {.scratch = &scratch});
    fssdp::sparse_reduce_scatter(comm, of.plan, partials, others, links, residuals);
    fssdp::synchronize(comm);
    for (auto const& part : {bits(all), bits(gradients), bits(others), bits(residuals)})
      result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace support
