// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for the cheapest of several.
#include "fssdp/solver/cheapest_materialization.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

template <int Experts, int SpareSlots, int Trials>
struct cheapest_within {
  static constexpr int instances = support::law_instances / 100;
  static fssdp::cheapest_materialization make(fssdp::topology const& topo) {
    return {
        .budget = {Experts, Experts, SpareSlots},
        .rates = {.forward_seconds_per_row = 1e-7, .token_bytes = 1536, .expert_bytes = 1U << 20U},
        .tokens = Trials * 1e4,
        .topology = topo,
        .trials = Trials};
  }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("cheapest_materialization keeps the contract", "",
                       ((int Experts, int SpareSlots, int Trials), Experts, SpareSlots, Trials),
                       (0, 0, 3), (2, 1, 0), (2, 2, 8), (1000, 1000, 2)) {
  contract::placement_solver_contract<cheapest_within<Experts, SpareSlots, Trials>>::check();
}
