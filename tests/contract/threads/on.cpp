// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for one that is bound to a stream.
#include "fssdp/comm/queued_communicator.hpp"

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"

namespace {

struct queued_threads {
  using communicator = fssdp::queued_communicator<fssdp::thread_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto world = fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto stream = fssdp::host_stream{};
      auto adapted = fssdp::on_stream(comm, stream);
      work(adapted);
    });
  }
};

}  // namespace

TEST_CASE("queued_communicator keeps the contract") {
  contract::communicator_contract<queued_threads>::check({.instances = 20, .refuses_peers = true});
}
