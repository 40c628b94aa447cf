// SPDX-License-Identifier: Apache-2.0
/// Divides blocks of any lengths into parts of about equal length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/part_length.hpp"
#include "fssdp/plan/plan_tables.hpp"
#include "fssdp/plan/uneven_plan.hpp"

namespace fssdp {

namespace detail {

/// The blocks without empty ones; adjacent blocks of one owner are joined.
/// @throws argument_error as uneven_plan
[[nodiscard]] inline std::vector<owned_block> joined_blocks(std::span<owned_block const> blocks,
                                                            int ranks) {
  require(ranks > 0, "uneven_plan: a topology of 0 ranks; expected that of the communicator");
  auto joined = std::vector<owned_block>{};
  auto all = std::size_t{0};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    auto const [owner, elements] = blocks[b];
    require(owner.value() >= 0 && owner.value() < ranks, "uneven_plan: block ", b,
            " is owned by rank ", owner, "; expected ranks from 0 to ", ranks - 1);
    require(elements <= most_sum_of_rows - all, "uneven_plan: block ", b, " has ", elements,
            " elements, which makes more than ", most_sum_of_rows, " in all; expected fewer");
    all += elements;
    if (elements == 0) continue;
    if (!joined.empty() && joined.back().owner == owner)
      joined.back().elements += elements;
    else
      joined.push_back(blocks[b]);
  }
  if (joined.empty()) joined.push_back({rank_id{0}, 0});  // a plan needs at least one expert
  return joined;
}

/// The plan before it is scheduled.
[[nodiscard]] inline transfer_plan plan_of_parts(std::span<owned_block const> blocks,
                                                 std::size_t length, topology const& topo) {
  auto owners = std::vector<rank_id>{};
  auto rows = std::vector<std::size_t>{};
  for (auto const& block : blocks) {
    auto const parts = parts_of_length(block.elements, length);
    for (std::size_t part = 0; part < parts; ++part) {
      owners.push_back(block.owner);
      rows.push_back(std::min(length, block.elements - std::min(block.elements, part * length)));
    }
  }
  auto const layout = table_layout{{.ranks = topo.ranks()}, std::move(owners)};
  auto where = placement{layout};
  for (auto const part : first_n<expert_id>(layout.experts()))
    for (auto const rank : first_n<rank_id>(layout.ranks())) where.add(part, rank);
  return make_plan(layout, std::move(where), topo).with_rows(std::move(rows));
}

/// @throws argument_error unless element_bytes is 1 or more and the bytes of a part can be counted
inline void check_bytes(std::size_t length, std::size_t element_bytes) {
  require(element_bytes >= 1, "uneven_plan: element_bytes is 0; expected 1 or more");
  require(length <= std::numeric_limits<std::size_t>::max() / element_bytes,
          "uneven_plan: blocks of ", length, " elements of ", element_bytes,
          " bytes; expected fewer");
}

[[nodiscard]] inline transfer_plan scheduled_parts(std::span<owned_block const> blocks,
                                                   topology const& topo, std::size_t element_bytes,
                                                   schedule_options const& options) {
  check_bytes(0, element_bytes);
  auto const joined = joined_blocks(blocks, topo.ranks());
  auto lengths = std::vector<std::size_t>{};
  for (auto const& block : joined) lengths.push_back(block.elements);
  auto const length =
      part_length(lengths, std::max(options.least_bytes, options.piece_bytes) / element_bytes);
  check_bytes(length, element_bytes);
  return schedule(plan_of_parts(joined, length, topo), length * element_bytes, options);
}

/// The plan of whole blocks.
[[nodiscard]] inline transfer_plan direct_blocks(std::span<owned_block const> blocks,
                                                 topology const& topo, std::size_t element_bytes) {
  auto const joined = joined_blocks(blocks, topo.ranks());
  auto const longest =
      std::max<std::size_t>(1, std::ranges::max(joined, {}, &owned_block::elements).elements);
  check_bytes(longest, element_bytes);
  auto const plan = plan_of_parts(joined, longest, topo);
  return plan.realised_by(direct_transfers(plan, plan.where()), 1);
}

}  // namespace detail

FSSDP_INLINE std::vector<owned_block> consecutive_blocks(std::span<std::size_t const> counts) {
  auto blocks = std::vector<owned_block>{};
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    blocks.push_back({rank_id{rank}, counts[rank]});
  return blocks;
}

FSSDP_INLINE uneven_plan::uneven_plan(std::span<owned_block const> blocks,
                                      fssdp::topology const& topo, std::size_t element_bytes,
                                      schedule_options const& options)
    : plan_{detail::scheduled_parts(blocks, topo, element_bytes, options)},
      element_bytes_{element_bytes} {}

FSSDP_INLINE uneven_plan uneven_plan::direct(std::span<owned_block const> blocks,
                                             fssdp::topology const& topo,
                                             std::size_t element_bytes) {
  return {detail::direct_blocks(blocks, topo, element_bytes), element_bytes};
}

}  // namespace fssdp
