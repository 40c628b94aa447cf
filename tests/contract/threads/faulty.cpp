// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for a faulty communicator without a fault.
#include "fssdp/comm/faulty.hpp"

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"

namespace {

struct sound_threads {
  using communicator = fssdp::faulty<fssdp::thread_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto world = fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto adapted = fssdp::faulty{comm, fssdp::fault{}};
      work(adapted);
    });
  }
};

}  // namespace

TEST_CASE("faulty without a fault keeps the contract") {
  contract::communicator_contract<sound_threads>::check({.instances = 20, .refuses_peers = true});
}
