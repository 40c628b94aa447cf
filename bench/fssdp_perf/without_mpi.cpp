// SPDX-License-Identifier: Apache-2.0
// What becomes of the baselines of MPI where it was not found.
#include <stdexcept>
#include <string>

#include "process_team.hpp"

namespace perf {

std::unique_ptr<process_team> join_processes(int) {
  throw std::invalid_argument{
      "this program was built without MPI; expected a back end and a baseline that do without"};
}

template <class T>
contestant mpi_contestant(process_team&, baseline, rank_memory<T>&) {
  throw std::logic_error{"without MPI there is no team of processes"};
}

template <class T>
contestant mpi_fssdp(process_team&, std::string, fssdp::transfer_plan const&, rank_memory<T>&) {
  throw std::logic_error{"without MPI there is no team of processes"};
}

template contestant mpi_contestant(process_team&, baseline, rank_memory<float>&);
template contestant mpi_contestant(process_team&, baseline, rank_memory<double>&);
template contestant mpi_contestant(process_team&, baseline, rank_memory<fssdp::bf16>&);
template contestant mpi_contestant(process_team&, baseline, rank_memory<fssdp::fp16>&);

template contestant mpi_fssdp(process_team&, std::string, fssdp::transfer_plan const&,
                              rank_memory<float>&);
template contestant mpi_fssdp(process_team&, std::string, fssdp::transfer_plan const&,
                              rank_memory<double>&);
template contestant mpi_fssdp(process_team&, std::string, fssdp::transfer_plan const&,
                              rank_memory<fssdp::bf16>&);
template contestant mpi_fssdp(process_team&, std::string, fssdp::transfer_plan const&,
                              rank_memory<fssdp::fp16>&);

}  // namespace perf
