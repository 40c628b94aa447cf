// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for the tracing adaptor.
#include "fssdp/comm/tracing.hpp"

#include "contract/communicator_contract.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/trace/trace_recorder.hpp"

namespace {

struct traced_threads {
  using communicator = fssdp::tracing<fssdp::thread_communicator, fssdp::trace_recorder>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto world = fssdp::thread_world{{.ranks = of.ranks, .deadline = of.deadline}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto trace = fssdp::trace_recorder{{.rank = comm.rank(), .capacity = 8}};
      auto adapted = fssdp::tracing{comm, &trace, fssdp::gather_track};
      work(adapted);
    });
  }
};

}  // namespace

TEST_CASE("tracing keeps the contract") {
  contract::communicator_contract<traced_threads>::check({.instances = 20, .refuses_peers = true});
}
