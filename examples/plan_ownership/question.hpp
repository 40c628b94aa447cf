// SPDX-License-Identifier: Apache-2.0
/// The question that plan_ownership answers.
#pragma once

#include <string>
#include <vector>

#include "fssdp/solver/ownership_planner.hpp"

namespace ownership {

struct question {
  fssdp::topology topo;
  std::vector<std::string> names;  ///< [items]
  std::vector<fssdp::owned_item> items;
  std::vector<fssdp::rank_id> before;  ///< [items], or empty
  fssdp::ownership_constraints constraints;
  fssdp::ownership_planner planner;
};

}  // namespace ownership
