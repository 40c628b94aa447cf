// SPDX-License-Identifier: Apache-2.0
/// The contract of a communicator, for processes over MPI.
#include "contract/communicator_contract.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "mpi/processes.hpp"
#include "support/communicator_extras.hpp"
#include "support/laws.hpp"

using fssdp::mpi_communicator;
using mpi_tests::processes;

namespace {

constexpr auto instances = support::law_instances / 500 + 1;

struct mpi_processes {
  using communicator = mpi_communicator;

  static int most_ranks() { return processes().size(); }
  static long total(long here) { return processes().total(here); }
  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    (void)mpi_tests::sum_over(of.ranks, {.deadline = of.deadline},
                              [&](mpi_communicator& comm) { return work(comm), 0; });
  }
};

/// Over a communicator that is borrowed, and in small parts.
struct borrowed : mpi_processes {
  using communicator = fssdp::mpi_ref;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto const options = fssdp::mpi_options{.deadline = of.deadline,
                                            .most_message_bytes = std::size_t{1} << 16U,
                                            .shared = processes().lent()};
    (void)mpi_tests::sum_over(of.ranks, {}, [&](mpi_communicator& outer) {
      auto streamed = MPI_Comm{};  // not freed: ranks fail in it
      MPI_Comm_dup(outer.handle(), &streamed);
      auto comm = fssdp::mpi_ref{streamed, options};
      auto thrown = std::exception_ptr{};
      try {
        work(comm);
      } catch (...) {
        thrown = std::current_exception();
      }
      comm.leave(thrown);
      if (thrown) std::rethrow_exception(thrown);
      return 0;
    });
  }
};

/// Driven by the threads of streams.
struct queued : mpi_processes {
  using communicator = fssdp::queued_communicator<mpi_communicator>;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    (void)mpi_tests::sum_over(of.ranks, {.deadline = of.deadline}, [&](mpi_communicator& comm) {
      auto stream = fssdp::host_stream{};
      auto bound = fssdp::on_stream(comm, stream);
      work(bound);
      return 0;
    });
  }
};

}  // namespace

TEST_CASE("mpi_communicator keeps the contract") {
  contract::communicator_contract<mpi_processes>::check(
      {.instances = instances, .refuses_peers = true});
}

TEST_CASE("mpi_ref keeps the contract, in small parts") {
  contract::communicator_contract<borrowed>::check({.instances = 5, .refuses_peers = true});
}

TEST_CASE("mpi_communicator keeps the contract on a stream") {
  contract::communicator_contract<queued>::check({.instances = 5, .refuses_peers = true});
}

TEST_CASE("the README says which extras communicators have over MPI") {
  auto of_communicator = std::vector<std::string>{};
  auto of_ref = std::vector<std::string>{};
  mpi_processes::run({.ranks = processes().size()}, [&](mpi_communicator& comm) {
    of_communicator = support::extras_of(comm);
    of_ref = support::extras_of(static_cast<fssdp::mpi_ref&>(comm));
  });
  REQUIRE(support::extras_in_readme("mpi_communicator") == of_communicator);
  REQUIRE(support::extras_in_readme("mpi_ref") == of_ref);
}
