// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, over process groups of torch that talk through MPI.
#include "c10d/gloo_group.hpp"  // ahead of torch's own headers

#define USE_C10D_MPI
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupMPI.hpp>

#include <vector>

#include "catch.hpp"
#include "contract/communicator_contract.hpp"
#include "fssdp/comm/c10d.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "mpi/processes.hpp"

using fssdp::c10d_communicator;
using mpi_tests::processes;

namespace {

/// The processes of a communicator, as a group. Kept to the end: a message that nobody has taken ends
/// the program when it is destroyed.
c10d_tests::group_pointer group_of(MPI_Comm of) {
  static auto* const all = new std::vector<c10d_tests::group_pointer>{};
  auto own = MPI_Comm{};
  MPI_Comm_dup(of, &own);
  auto rank = 0;
  auto size = 0;
  MPI_Comm_rank(own, &rank);
  MPI_Comm_size(own, &size);
  all->push_back(c10d_tests::group_around(
      c10d_tests::backend_pointer{c10::make_intrusive<c10d::ProcessGroupMPI>(rank, size, own)},
      c10::make_intrusive<c10d::HashStore>()));
  return all->back();
}

struct mpi_groups {
  using communicator = c10d_communicator;

  static int most_ranks() { return processes().size(); }
  static long total(long here) { return processes().total(here); }
  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    (void)mpi_tests::sum_over(of.ranks, {}, [&](fssdp::mpi_communicator& world) {
      auto const make = [&] { return group_of(world.handle()); };
      auto comm = c10d_communicator{make(), {.deadline = of.deadline, .make_group = make}};
      return work(comm), 0;
    });
  }
};

/// Driven by the threads of streams.
struct queued : mpi_groups {
  using communicator = fssdp::queued_communicator<c10d_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    mpi_groups::run(of, [&](c10d_communicator& comm) {
      auto stream = fssdp::host_stream{};
      auto bound = fssdp::on_stream(comm, stream);
      work(bound);
    });
  }
};

}  // namespace

TEST_CASE("c10d_communicator keeps the contract over MPI") {
  contract::communicator_contract<mpi_groups>::check({.instances = 20, .refuses_peers = true});
}

TEST_CASE("c10d_communicator keeps the contract over MPI on a stream") {
  contract::communicator_contract<queued>::check({.instances = 5, .refuses_peers = true});
}
