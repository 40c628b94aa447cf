// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for threads.
#include "fssdp/comm/thread.hpp"

#include "contract/communicator_contract.hpp"
#include "support/laws.hpp"

namespace {

struct threads {
  using communicator = fssdp::thread_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}}.run(work);
  }
};

}  // namespace

TEST_CASE("thread_communicator keeps the contract") {
  contract::communicator_contract<threads>::check(
      {.instances = support::law_instances / 100 + 1, .refuses_peers = true});
}
