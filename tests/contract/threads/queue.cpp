// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for the one over queues in the examples.
#include "../../../examples/02_own_communicator/queue_communicator.hpp"

#include "../../../examples/02_own_communicator/on_all_ranks.hpp"
#include "contract/communicator_contract.hpp"

namespace {

struct queue_ranks {
  using communicator = queue_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto host = queue_host{of.ranks, of.deadline};
    for (auto& rank : on_all_ranks(host, work)) rank.get();
  }
};

}  // namespace

TEST_CASE("queue_communicator keeps the contract") {
  contract::communicator_contract<queue_ranks>::check({.instances = 20});
}
