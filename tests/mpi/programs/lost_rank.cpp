// SPDX-License-Identifier: Apache-2.0
/// Rank 1 is killed while the others await it: they report it, and end. With 0, as the
/// first other status is a reason for mpirun to kill those that have not yet said so.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <vector>

#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/mpi.hpp"

int main() {
  auto me = -1;
  try {
    fssdp::mpi_world{{.deadline = std::chrono::seconds{3}}}.run(
        [&](fssdp::communicator auto& comm) {
          me = comm.rank().value();
          (void)fssdp::all_reduce(comm, std::vector{1});
          if (me == 1) std::raise(SIGKILL);
          (void)fssdp::all_reduce(comm, std::vector{1});
        });
  } catch (fssdp::transport_error const& error) {
    std::printf("survivor %d names rank %d: %s\n", me, error.failed_rank().value(), error.what());
  }
}
