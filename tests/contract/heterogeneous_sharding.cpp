// SPDX-License-Identifier: Apache-2.0
/// The contract of a sharding solver, for Algorithm 2.
#include "fssdp/solver/heterogeneous_sharding.hpp"

#include "contract/sharding_solver_contract.hpp"

namespace {

template <int Overlap>
struct algorithm_2 {
  static fssdp::heterogeneous_sharding make() { return {.overlap = Overlap}; }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("heterogeneous_sharding keeps the contract", "", ((int Overlap), Overlap), 0,
                       1, 3, 1000) {
  contract::sharding_solver_contract<algorithm_2<Overlap>>::check();
}
