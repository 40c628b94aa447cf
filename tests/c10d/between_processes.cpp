// SPDX-License-Identifier: Apache-2.0
/// Ranks that are processes over c10d: the contract, and what the others say when one is killed.
/// Started by processes.sh; the tests of threads are in the other files.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "c10d/processes.hpp"
#include "catch.hpp"
#include "contract/communicator_contract.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/c10d.hpp"

using c10d_tests::processes;
using fssdp::c10d_communicator;

namespace {

struct c10d_processes {
  using communicator = c10d_communicator;

  static int most_ranks() { return processes()->size(); }
  static long total(long here) { return processes()->total(here); }
  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto const make = [&] { return processes()->first(of.ranks); };
    auto thrown = std::exception_ptr{};
    if (processes()->rank() < of.ranks) try {
        auto comm = c10d_communicator{make(), {.deadline = of.deadline, .make_group = make}};
        work(comm);
      } catch (...) {
        thrown = std::current_exception();
      }
    auto const failed = processes()->total(thrown ? 1 : 0);
    if (thrown) std::rethrow_exception(thrown);
    if (failed != 0) throw std::runtime_error{"another process has failed"};
  }
};

}  // namespace

TEST_CASE("c10d_communicator keeps the contract between processes", "[.processes]") {
  REQUIRE(processes() != nullptr);
  contract::communicator_contract<c10d_processes>::check({.instances = 5, .refuses_peers = true});
}

TEST_CASE("a process that is killed is named by all others", "[.killed]") {
  REQUIRE(processes() != nullptr);
  auto const group = processes()->first(processes()->size());
  auto comm = c10d_communicator{group, {.deadline = std::chrono::seconds{60}}};
  auto const me = comm.rank().value();
  auto named = -1;
  auto said = std::string{};
  auto const begin = std::chrono::steady_clock::now();
  try {
    (void)fssdp::all_reduce(comm, std::vector<std::size_t>(1000, 1));
    if (me == 1) std::raise(SIGKILL);
    (void)fssdp::all_reduce(comm, std::vector<std::size_t>(1'000'000, 1));
  } catch (fssdp::transport_error const& error) {
    named = error.failed_rank().value();
    said = error.what();
  }
  CAPTURE(said);
  REQUIRE(named == 1);
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{20});  // not the deadline
}
