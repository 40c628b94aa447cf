// SPDX-License-Identifier: Apache-2.0
/// What has to be moved, independent of what moves it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cases/cases.hpp"
#include "cases/direct_plan.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "names.hpp"

namespace perf {

/// The experts of one case, or the blocks of an array: block r is owned by rank r, wanted by all.
struct task {
  cases::scene placed;
  std::size_t element_bytes;
  std::size_t elements;                ///< of an expert; of an array 1, those of a row
  std::vector<std::size_t> rows = {};  ///< [rank]: elements of its block, if it is of an array

  [[nodiscard]] bool is_array() const { return !rows.empty(); }
  /// Of an expert, and of the largest one.
  [[nodiscard]] std::size_t bytes(fssdp::expert_id expert) const {
    return elements * element_bytes * (is_array() ? rows[expert.index()] : 1);
  }
  [[nodiscard]] std::size_t most_bytes() const {
    return elements * element_bytes * (is_array() ? std::ranges::max(rows) : 1);
  }
  /// A plan for its placement, told how large experts are.
  [[nodiscard]] fssdp::transfer_plan sized(fssdp::transfer_plan const& plan) const {
    return is_array() ? plan.with_rows(rows) : plan;
  }
  /// Without relays, chains and pieces.
  [[nodiscard]] fssdp::transfer_plan direct() const { return sized(cases::direct_plan(placed)); }
  [[nodiscard]] fssdp::transfer_plan node_aware() const {
    return sized(fssdp::make_plan(placed.layout, placed.where, placed.topology));
  }
};

/// How long the blocks of an array are, in elements: all alike, or block r proportional to
/// 1 / (r + 1).
/// @param average what they have in the mean
[[nodiscard]] inline std::vector<std::size_t> block_lengths(case_kind which, int ranks,
                                                            std::size_t average) {
  auto lengths = std::vector<std::size_t>(static_cast<std::size_t>(ranks), average);
  if (which == case_kind::blocks) return lengths;
  auto shares = std::vector<double>{};  // running sums: of each block and all before it
  for (std::size_t r = 0; r < lengths.size(); ++r)
    shares.push_back((shares.empty() ? 0.0 : shares.back()) + 1.0 / static_cast<double>(r + 1));
  auto const all = average * lengths.size();
  auto begin = std::size_t{0};
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    auto const share = shares[r] / shares.back();
    auto const end =
        r + 1 == lengths.size()
            ? all
            : std::min(all, static_cast<std::size_t>(static_cast<double>(all) * share));
    lengths[r] = end - begin;
    begin = end;
  }
  return lengths;
}

/// @param experts those of a placement; an array has a block for each rank
/// @param bytes   of an expert, or of a block in the mean
[[nodiscard]] inline task make_task(case_kind which, fssdp::topology const& topo, int experts,
                                    std::uint64_t seed, std::size_t bytes,
                                    std::size_t element_bytes) {
  if (!is_of_blocks(which)) {
    auto const placement = static_cast<cases::case_kind>(which);  // the same numbers in both
    return {cases::make_scene(placement, topo, experts, seed), element_bytes,
            bytes / element_bytes};
  }
  auto const layout = fssdp::block_layout{{.experts = topo.ranks(), .ranks = topo.ranks()}};
  return {{topo, layout, fssdp::everywhere{}(layout)},
          element_bytes,
          1,
          block_lengths(which, topo.ranks(), bytes / element_bytes)};
}

/// The same experts, every one of them everywhere.
[[nodiscard]] inline task everywhere(task const& of) {
  return {cases::everywhere(of.placed), of.element_bytes, of.elements, of.rows};
}

}  // namespace perf
