// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for c10d between threads.
#include "contract/communicator_contract.hpp"

#include <algorithm>
#include <chrono>

#include "c10d/threads.hpp"
#include "fssdp/comm/c10d.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "support/communicator_extras.hpp"

using fssdp::c10d_communicator;

namespace {

struct c10d_threads {
  using communicator = c10d_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    c10d_tests::on_groups(of.ranks, [&](c10d_tests::group_maker make) {
      auto comm = c10d_communicator{make(), {.deadline = of.deadline, .make_group = make}};
      work(comm);
    });
  }
};

struct queued {
  using communicator = fssdp::queued_communicator<c10d_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    c10d_threads::run(of, [&](c10d_communicator& comm) {
      auto stream = fssdp::host_stream{};
      auto bound = fssdp::on_stream(comm, stream);
      work(bound);
    });
  }
};

}  // namespace

TEST_CASE("c10d_communicator keeps the contract") {
  contract::communicator_contract<c10d_threads>::check({.instances = 10, .refuses_peers = true});
}

TEST_CASE("c10d_communicator keeps the contract on a stream") {
  contract::communicator_contract<queued>::check({.instances = 3, .refuses_peers = true});
}

TEST_CASE("the README says which extras communicators have over c10d") {
  auto const of_host = c10d_tests::results_of(1, [](c10d_tests::group_maker make) {
    auto comm = c10d_communicator{make()};
    return support::extras_of(comm);
  });
  auto const of_device = c10d_tests::results_of(1, [](c10d_tests::group_maker make) {
    auto comm = fssdp::c10d_device_communicator{make(), c10::kCPU};
    return support::extras_of(comm);
  });
  REQUIRE(support::extras_in_readme("c10d_communicator") == of_host[0]);
  REQUIRE(support::extras_in_readme("c10d_device_communicator") == of_device[0]);
}
