// SPDX-License-Identifier: Apache-2.0
/// FasterMoE: shadows of the hottest experts.
#pragma once

#include <algorithm>
#include <cstddef>

#include "../policy.hpp"

namespace sim {

/// The k hottest experts by the real counts on all devices, for each k.
[[nodiscard]] inline layer_answers answers_of_fastermoe(layer_question const& question) {
  auto const order = fssdp::by_load(question.counts->loads());
  auto where = fssdp::placement{*question.owners};
  auto answers = layer_answers{{*question.owners, where}};
  auto const most = std::min(static_cast<std::size_t>(question.slots), order.size());
  for (std::size_t k = 0; k < most; ++k) {
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(where.ranks())) where.add(order[k], rank);
    answers.push_back({*question.owners, where});
  }
  return answers;
}

inline constexpr auto fastermoe = policy{
    .name = "fastermoe",
    .about = "the most loaded experts on all devices where that pays, by the real counts; exposed",
    .answers = answers_of_fastermoe,
    .costs = {.moves = movement::exposed}};

}  // namespace sim
