// SPDX-License-Identifier: Apache-2.0
/// Ranks that are processes: MPI comes with the target.
#include "fssdp/comm/mpi.hpp"

int main() {
  auto ranks = 0;
  fssdp::mpi_world{}.run([&](fssdp::communicator auto& comm) { ranks = comm.size(); });
  return ranks == 1 ? 0 : 1;  // without mpirun
}
