// SPDX-License-Identifier: Apache-2.0
// Without MPI: its baselines are an error that says so.
#include <stdexcept>

#include "process_team.hpp"

namespace perf {

std::unique_ptr<process_team> join_processes(int) {
  throw std::invalid_argument{
      "this program was built without MPI; expected a back end and a baseline that do without"};
}

contestant mpi_contestant(process_team&, baseline, any_rank_memory) {
  throw std::logic_error{"without MPI there is no team of processes"};
}

contestant mpi_fssdp(process_team&, char const*, measured_plan const&, any_rank_memory) {
  throw std::logic_error{"without MPI there is no team of processes"};
}

}  // namespace perf
