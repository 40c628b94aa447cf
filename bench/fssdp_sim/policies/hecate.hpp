// SPDX-License-Identifier: Apache-2.0
/// Hecate: Algorithms 1 and 2 of its paper, each on and off, and re-materialization.
#pragma once

#include <cstddef>
#include <utility>

#include "../policy.hpp"
#include "ep.hpp"
#include "fssdp/runtime/calibration.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "fssdp/solver/sparse_materialization.hpp"

namespace sim {

namespace detail {

[[nodiscard]] inline fssdp::sparse_materialization algorithm_1(layer_question const& question) {
  return {
      .overlap = question.overlap, .spare_slots = question.slots, .topology = *question.topology};
}

}  // namespace detail

[[nodiscard]] inline layer_answers answers_of_hecate(layer_question const& question) {
  auto const solve = detail::algorithm_1(question);
  return {{*question.owners, solve(*question.predicted, *question.owners)}};
}

/// The same; and with what Algorithm 1 adds for the real counts, in the slots that are left.
[[nodiscard]] inline layer_answers answers_of_hecate_calibrated(layer_question const& question) {
  auto answers = answers_of_hecate(question);
  auto const before = answers.front();
  auto const& owners = before.owners;
  auto const used = fssdp::most_slots_used(before.where, owners, fssdp::slot_use::remote);
  auto const left = static_cast<std::size_t>(question.slots) - used;
  auto solve = detail::algorithm_1(question);
  solve.overlap = owners.experts();  // no limit: nothing is hidden, calibrate keeps what pays
  auto found = fssdp::calibrate(before.where, solve(question.counts->loads(), owners), owners,
                                *question.counts,
                                {.slots = left,
                                 .chunk_bytes = question.rates.expert_bytes,
                                 .seconds_per_row = 3 * question.rates.forward_seconds_per_row,
                                 .topology = *question.topology});
  if (!found.has_value()) return answers;
  auto late = fssdp::placement{owners};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(owners.experts()))
    for (auto const rank : found->where.holders(expert))
      if (!before.where.holds(rank, expert)) late.add(expert, rank);
  answers.push_back({.owners = owners, .where = std::move(found->where), .late = std::move(late)});
  return answers;
}

inline constexpr auto hecate = policy{.name = "hecate",
                                      .about = "Algorithms 1 and 2 of the paper",
                                      .answers = answers_of_hecate,
                                      .shards = sharding::by_load};
inline constexpr auto hecate_rm =
    policy{.name = "hecate-rm",
           .about = "as hecate; replicas are gathered again for the backward pass",
           .answers = answers_of_hecate,
           .costs = {.often = fssdp::gathers::twice, .replicas = lifetime::layer},
           .shards = sharding::by_load};
inline constexpr auto hecate_calibrated =
    policy{.name = "hecate-calibrated",
           .about = "as hecate; replicas are added once the router has chosen, where that pays",
           .answers = answers_of_hecate_calibrated,
           .shards = sharding::by_load};
inline constexpr auto hecate_no_sharding =
    policy{.name = "hecate-no-sharding",
           .about = "Algorithm 1 alone; experts are owned in blocks",
           .answers = answers_of_hecate};
inline constexpr auto hecate_no_materialization =
    policy{.name = "hecate-no-materialization",
           .about = "Algorithm 2 alone; nothing is replicated",
           .answers = answers_of_ep,
           .shards = sharding::by_load_alone};

}  // namespace sim
