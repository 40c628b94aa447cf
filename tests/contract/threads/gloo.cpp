// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for the one over Gloo in the examples.
#if defined(EXAMPLE_HAS_GLOO)
#include "../../../examples/02_own_communicator/gloo_communicator.hpp"

#include "../../../examples/02_own_communicator/on_all_ranks.hpp"
#include "contract/communicator_contract.hpp"

namespace {

struct gloo_ranks {
  using communicator = gloo_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto host = gloo_host{of.ranks, of.deadline};
    for (auto& rank : on_all_ranks(host, work)) rank.get();
  }
};

}  // namespace

TEST_CASE("gloo_communicator keeps the contract") {
  contract::communicator_contract<gloo_ranks>::check({.instances = 20});
}
#endif
