// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for devices of one process.
#include "contract/communicator_contract.hpp"

#include "peer/devices.hpp"
#include "support/laws.hpp"

namespace {

/// Ranks share two devices where there are as many, whatever copies.
template <fssdp::copied_by Copies>
struct peers {
  using communicator = fssdp::peer_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    peer_tests::on_devices({.ranks = of.ranks,
                            .deadline = of.deadline,
                            .copies = Copies,
                            .devices = std::min(gpu_double::current().devices, 2)},
                           work);
  }
};

constexpr auto all_of_it =
    contract::communicator_contract<peers<fssdp::copied_by::engines>>::promises{
        .instances = support::law_instances / 100 + 1, .refuses_peers = true};

}  // namespace

TEST_CASE("peer_communicator keeps the contract where engines copy") {
  gpu_double::reset();
  contract::communicator_contract<peers<fssdp::copied_by::engines>>::check(all_of_it);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("peer_communicator keeps the contract where kernels copy") {
  gpu_double::reset();
  contract::communicator_contract<peers<fssdp::copied_by::kernels>>::check(
      {.instances = all_of_it.instances, .refuses_peers = true});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
