// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for devices of one process.
#include "contract/communicator_contract.hpp"

#include "peer/devices.hpp"
#include "peer/everywhere_buffers.hpp"
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

TEST_CASE("devices work on CUDA's default streams, too") {
  gpu_double::reset({.default_streams = true});
  auto const of = support::everywhere_plan{2};
  for (auto* const stream : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
    auto const right = peer_tests::results_of({.ranks = of.ranks}, [&](auto& comm) {
      auto streamed = comm.duplicate(stream);
      auto mine = peer_tests::everywhere_buffers{of, comm.rank()};
      mine.gather_and_reduce(streamed, of.plan);
      streamed.synchronize();
      return mine.gradients_are(static_cast<float>(2 * (comm.rank().value() + 1))) ? 1 : 0;
    });
    REQUIRE(right == std::vector{1, 1});
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
