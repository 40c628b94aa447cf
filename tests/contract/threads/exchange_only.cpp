// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for one with the three required members only.
#include "support/communicator_archetype.hpp"

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"

namespace {

struct bare_threads {
  using communicator = support::exchange_only<fssdp::thread_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto world = fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto adapted = support::exchange_only{comm};
      work(adapted);
    });
  }
};

}  // namespace

TEST_CASE("a communicator of nothing but the concept keeps the contract") {
  contract::communicator_contract<bare_threads>::check({.instances = 20, .refuses_peers = true});
}
