// SPDX-License-Identifier: Apache-2.0
/// Rates and budgets out of the classes of fssdp.costs that have their names.
#pragma once

#include "arrays.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/solver/materialization_budget.hpp"

namespace python {

/// @param from a fssdp.LayerRates
/// @throws fssdp::argument_error if bytes are negative or not whole
[[nodiscard]] inline fssdp::layer_rates rates_of(nb::handle from) {
  auto const seconds = [&](char const* name) { return nb::cast<double>(from.attr(name)); };
  return {.forward_seconds_per_row = seconds("forward_seconds_per_row"),
          .token_bytes = static_cast<std::size_t>(read_whole_member(from, "token_bytes")),
          .expert_bytes = static_cast<std::size_t>(read_whole_member(from, "expert_bytes")),
          .window_seconds = seconds("window_seconds")};
}

/// @param from a fssdp.MaterializationBudget
[[nodiscard]] inline fssdp::materialization_budget budget_of(nb::handle from) {
  auto const count = [&](char const* name) { return nb::cast<int>(from.attr(name)); };
  return {.experts_in = count("experts_in"),
          .experts_out = count("experts_out"),
          .spare_slots = count("spare_slots")};
}

}  // namespace python
