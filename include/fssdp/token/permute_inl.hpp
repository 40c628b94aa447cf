// SPDX-License-Identifier: Apache-2.0
/// Sorts choices by expert.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/token/permute.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp {

FSSDP_INLINE expert_order::expert_order(std::span<expert_id const> choices, int experts,
                                        int per_token)
    : per_token_{static_cast<std::size_t>(per_token)}, row_(choices.size()) {
  detail::require(experts >= 1, "expert_order: ", experts, " experts; expected 1 or more");
  counts_.resize(static_cast<std::size_t>(experts));
  detail::require(per_token >= 1 && choices.size() % per_token_ == 0,
                  "expert_order: ", choices.size(), " choices; expected a multiple of ", per_token,
                  " per token");
  for (auto const expert : choices) {
    detail::require(expert.value() >= 0 && expert.value() < experts,
                    "expert_order: a choice is expert ", expert, "; expected 0 to ", experts - 1);
    ++counts_[expert.index()];
  }
  auto next = std::vector<std::size_t>(counts_.size());
  for (std::size_t e = 1; e < next.size(); ++e)
    next[e] = next[e - 1] + static_cast<std::size_t>(counts_[e - 1]);
  for (std::size_t c = 0; c < choices.size(); ++c) row_[c] = next[choices[c].index()]++;
}

FSSDP_INLINE expert_order::expert_order(expert_order by_expert, token_plan const& plan)
    : expert_order{std::move(by_expert)} {
  detail::require(plan.sent_rows() == rows(), "expert_order: ", rows(),
                  " choices; expected those of the plan, which sends ", plan.sent_rows());
  auto const moved = plan.rows_by_expert();
  for (auto& row : row_) row = moved[row];
}

}  // namespace fssdp
