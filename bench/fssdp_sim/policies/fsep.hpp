// SPDX-License-Identifier: Apache-2.0
/// Fully sharded expert parallelism, after LAER-MoE: every device may gather any whole experts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "../policy.hpp"
#include "../replica_counts.hpp"

namespace sim {

/// Replicas by load, the largest share first to the least loaded device that has a place; every
/// device has `places`. The first device that gathers an expert counts as its owner.
/// @pre places * ranks is at least the number of experts
[[nodiscard]] inline layer_answer packed(fssdp::expert_loads const& loads, int ranks, int places) {
  auto const devices = static_cast<std::size_t>(ranks);
  auto const counts = replica_counts(loads, devices * static_cast<std::size_t>(places), ranks);
  auto const share = [&](std::size_t e) { return static_cast<double>(loads[e]) / counts[e]; };
  auto order = std::vector<std::size_t>{};
  for (std::size_t e = 0; e < loads.size(); ++e) order.push_back(e);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return share(a) > share(b); });

  // Experts that get many replicas must leave places for those that come after them.
  auto const device = [](int rank) { return static_cast<std::size_t>(rank); };
  auto kept = loads.size();
  auto free = devices * static_cast<std::size_t>(places);
  auto slots = slot_queue{std::vector<double>(devices), std::vector<int>(devices, places)};
  auto first_owners = std::vector<fssdp::rank_id>(loads.size());
  auto replicas = std::vector<std::pair<std::size_t, int>>{};
  for (auto const e : order) {
    --kept;
    auto mine = std::vector<bool>(devices);
    auto first = true;
    for (int n = 0; n < counts[e] && (first || free > kept); ++n) {
      auto const rank = slots.take(share(e), [&](int to) { return !mine[device(to)]; });
      if (!rank.has_value()) break;
      if (first) first_owners[e] = fssdp::rank_id{*rank};
      first = false;
      --free;
      mine[device(*rank)] = true;
      replicas.emplace_back(e, *rank);
    }
  }
  auto owners = fssdp::table_layout{{.ranks = ranks}, std::move(first_owners)};
  auto where = fssdp::placement{owners};
  for (auto const& [e, rank] : replicas)
    where.add(fssdp::expert_id{static_cast<int>(e)}, fssdp::rank_id{rank});
  return {std::move(owners), std::move(where)};
}

[[nodiscard]] inline layer_answers answers_of_fsep(layer_question const& question) {
  auto const ranks = question.owners->ranks();
  auto const owned = (question.owners->experts() + ranks - 1) / ranks;
  auto answers = layer_answers{};
  for (auto slots = question.slots;; slots /= 2) {
    for (auto const rule : {routing_rule::uniform, routing_rule::even}) {
      answers.push_back(packed(*question.predicted, ranks, owned + slots));
      answers.back().routing = rule;
    }
    if (slots == 0) break;
  }
  return answers;
}

inline constexpr auto fsep =
    policy{.name = "fsep",
           .about =
               "experts in slices over all devices; each device gathers whole ones, as many "
               "as it would own plus its slots",
           .answers = answers_of_fsep,
           .costs = {.moves = movement::sliced}};

}  // namespace sim
