// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for no replicas at all.
#include "fssdp/solver/owners_only.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

struct nothing_moves {
  static fssdp::owners_only make(fssdp::topology const&) { return {}; }
};

}  // namespace

TEST_CASE("owners_only keeps the contract") {
  contract::placement_solver_contract<nothing_moves>::check();
}
