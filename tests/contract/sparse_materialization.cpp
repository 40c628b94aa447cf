// SPDX-License-Identifier: Apache-2.0
/// The contract of a placement solver, for Algorithm 1.
#include "fssdp/solver/sparse_materialization.hpp"

#include "contract/placement_solver_contract.hpp"

namespace {

template <int Overlap, int SpareSlots>
struct algorithm_1 {
  static fssdp::sparse_materialization make(fssdp::topology const& topo) {
    return {.overlap = Overlap, .spare_slots = SpareSlots, .topology = topo};
  }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("sparse_materialization keeps the contract", "",
                       ((int Overlap, int SpareSlots), Overlap, SpareSlots), (0, 0), (3, 0), (4, 2),
                       (2, 4), (9, 1), (1000, 1000)) {
  contract::placement_solver_contract<algorithm_1<Overlap, SpareSlots>>::check();
}
