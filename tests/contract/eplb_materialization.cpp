// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for EPLB's replicas beside given owners.
#include "fssdp/solver/eplb_materialization.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

template <int SpareSlots>
struct eplb_in_nodes {
  static fssdp::eplb_materialization make(fssdp::topology const& topo) {
    return {.spare_slots = SpareSlots, .topology = topo};
  }
};

struct eplb_on_all_ranks {
  static fssdp::eplb_materialization make(fssdp::topology const&) { return {.spare_slots = 2}; }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("eplb_materialization keeps the contract", "",
                       ((int SpareSlots), SpareSlots), 0, 1, 3, 1000) {
  contract::placement_solver_contract<eplb_in_nodes<SpareSlots>>::check();
}
TEST_CASE("eplb_materialization on all ranks keeps the contract") {
  contract::placement_solver_contract<eplb_on_all_ranks>::check();
}
