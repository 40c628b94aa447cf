// SPDX-License-Identifier: Apache-2.0
/// FasterMoE: shadows of the hottest experts.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "../layer_figures.hpp"
#include "../policy.hpp"

namespace sim {

inline constexpr auto fastermoe_costs = traits{.moves = movement::exposed};

/// The k hottest experts by the real counts to everybody, for the k that pays best.
[[nodiscard]] inline layer_answer answer_fastermoe(layer_question const& question) {
  auto const order = fssdp::by_load(question.counts->loads());
  auto where = fssdp::placement{*question.owners};
  auto answers = std::vector{layer_answer{*question.owners, where}};
  auto const most = std::min(static_cast<std::size_t>(question.slots), order.size());
  for (std::size_t k = 0; k < most; ++k) {
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(where.ranks())) where.add(order[k], rank);
    answers.push_back({*question.owners, where});
  }
  return cheapest(question, std::move(answers), fastermoe_costs);
}

inline constexpr auto fastermoe =
    policy{.name = "fastermoe",
           .about = "the hottest experts to everybody where that pays, by the real counts; exposed",
           .answer = answer_fastermoe,
           .costs = fastermoe_costs};

}  // namespace sim
