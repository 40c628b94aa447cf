// SPDX-License-Identifier: Apache-2.0
/// The buffers of all ranks.
#pragma once

#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/any_buffer.hpp"
#include "support/random_instance.hpp"

namespace support {

/// [rank]
template <class T>
using per_rank = std::vector<fssdp::expert_buffer<T>>;

/// A shard of each rank, zero.
template <fssdp::element T>
[[nodiscard]] per_rank<T> shards_on_ranks(random_instance const& of) {
  auto all = per_rank<T>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    all.push_back(fssdp::make_shard<T>(of.layout, rank, of.elements));
  return all;
}
/// The partials of each rank, of all experts that it holds, zero.
template <fssdp::element T>
[[nodiscard]] per_rank<T> partials_on_ranks(random_instance const& of) {
  auto all = per_rank<T>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    all.push_back(fssdp::make_partials<T>(of.plan, rank, of.elements));
  return all;
}

/// The same of a dtype.
[[nodiscard]] inline std::vector<any_buffer> any_shards_on_ranks(random_instance const& of,
                                                                 fssdp::dtype type) {
  auto all = std::vector<any_buffer>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    all.push_back(any_shard(of, rank, type));
  return all;
}
[[nodiscard]] inline std::vector<any_buffer> any_partials_on_ranks(random_instance const& of,
                                                                   fssdp::dtype type) {
  auto all = std::vector<any_buffer>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
    all.push_back(any_partials(of, rank, type));
  return all;
}

}  // namespace support
