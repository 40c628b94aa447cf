// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for Algorithm 1 within ports.
#include "fssdp/solver/largest_overlap.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

template <int Experts, int SpareSlots>
struct overlap_within {
  static constexpr int instances = support::law_instances / 10;
  static fssdp::largest_overlap make(fssdp::topology const& topo) {
    return {.budget = {Experts, Experts, SpareSlots}, .topology = topo};
  }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("largest_overlap keeps the contract", "",
                       ((int Experts, int SpareSlots), Experts, SpareSlots), (0, 0), (2, 1), (4, 3),
                       (1000, 1000)) {
  contract::placement_solver_contract<overlap_within<Experts, SpareSlots>>::check();
}
