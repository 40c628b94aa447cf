// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for a group of threads: some ranks of a larger world, the other
/// way round. The rest of the world is a group, too.
#include <latch>

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/laws.hpp"

namespace {

struct group_of_threads {
  using communicator = fssdp::thread_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto const ranks = 2 * of.ranks + 1;
    auto world = fssdp::thread_world{{.ranks = ranks, .deadline = of.deadline}};
    auto all_are_split = std::latch{ranks};  // what fails in a group fails for the world
    world.run([&](fssdp::thread_communicator& comm) {
      auto const me = comm.rank().value();
      auto group = comm.split(me % 2, -me);  // the odd ones
      all_are_split.arrive_and_wait();
      if (me % 2 == 1) work(*group);
    });
  }
};

}  // namespace

TEST_CASE("a group of threads keeps the contract") {
  contract::communicator_contract<group_of_threads>::check(
      {.instances = support::law_instances / 200 + 1, .refuses_peers = true});
}
