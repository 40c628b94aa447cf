// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for replicas where they are needed.
#include "fssdp/solver/needs_based_materialization.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

template <int Experts, int SpareSlots>
struct needs_within {
  static constexpr int instances = support::law_instances / 5;
  static fssdp::needs_based_materialization make(fssdp::topology const& topo) {
    return {.budget = {Experts, Experts, SpareSlots}, .topology = topo};
  }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("needs_based_materialization keeps the contract", "",
                       ((int Experts, int SpareSlots), Experts, SpareSlots), (0, 0), (0, 2), (3, 0),
                       (1, 1), (4, 2), (1000, 1000)) {
  contract::placement_solver_contract<needs_within<Experts, SpareSlots>>::check();
}
