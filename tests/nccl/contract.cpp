// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for devices over NCCL.
#include "contract/communicator_contract.hpp"

#include "nccl/devices.hpp"
#include "support/laws.hpp"

namespace {

struct devices {
  using communicator = fssdp::nccl_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    nccl_tests::on_devices({.ranks = of.ranks, .deadline = of.deadline}, work);
  }
};

}  // namespace

TEST_CASE("nccl_communicator keeps the contract, and NCCL's rules") {
  gpu_double::reset();
  contract::communicator_contract<devices>::check(
      {.instances = support::law_instances / 100 + 1, .refuses_peers = true});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
