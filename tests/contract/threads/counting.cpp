// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for the counting adaptor.
#include "fssdp/comm/counting.hpp"

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"

namespace {

struct counted_threads {
  using communicator = fssdp::counting<fssdp::thread_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto world = fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto adapted = fssdp::counting{comm};
      work(adapted);
    });
  }
};

}  // namespace

TEST_CASE("counting keeps the contract") {
  contract::communicator_contract<counted_threads>::check({.instances = 20, .refuses_peers = true});
}
