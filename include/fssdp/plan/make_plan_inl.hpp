// SPDX-License-Identifier: Apache-2.0
/// Chooses between the two kinds of plan.
#pragma once

#include <utility>

#include "fssdp/core/inline.hpp"
#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/node_aware_plan.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

FSSDP_INLINE transfer_plan make_plan(plan_tables tables) {
  if (tables.topology.nodes() == 1) {
    auto transfers = direct_transfers(table_owners{tables}, tables.where);
    return {std::move(tables), std::move(transfers)};
  }
  auto plan = node_aware_plan(std::move(tables));
  if (plan.rounds() > 1 && direct_may_win(plan, least_planned_bytes))
    return plan.realised_by(direct_transfers(plan, plan.where()), 1);
  return plan;
}

}  // namespace detail
}  // namespace fssdp
