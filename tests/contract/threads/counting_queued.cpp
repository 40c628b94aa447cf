// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for the counting adaptor on a stream.
#include "contract/communicator_contract.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"

namespace {

struct counted_queues {
  using communicator = fssdp::counting<fssdp::queued_communicator<fssdp::thread_communicator>>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto world = fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto stream = fssdp::host_stream{};
      auto queued = fssdp::on_stream(comm, stream);
      auto adapted = fssdp::counting{queued};
      work(adapted);
    });
  }
};

}  // namespace

TEST_CASE("counting on a stream keeps the contract") {
  contract::communicator_contract<counted_queues>::check({.instances = 20, .refuses_peers = true});
}
