// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for replicas of all experts on all ranks.
#include "fssdp/solver/everywhere.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

struct everything_moves {
  static fssdp::everywhere make(fssdp::topology const&) { return {}; }
};

}  // namespace

TEST_CASE("everywhere keeps the contract") {
  contract::placement_solver_contract<everything_moves>::check();
}
