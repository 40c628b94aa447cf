// SPDX-License-Identifier: Apache-2.0
// Without MPI: --backend mpi is an error that says so.
#include <stdexcept>

#include "rank_world.hpp"

namespace moe_gpt {

std::unique_ptr<rank_world> join_processes(options const&) {
  throw std::invalid_argument{
      "--backend mpi: this program was built without MPI; expected libopenmpi-dev when it is "
      "built"};
}

}  // namespace moe_gpt
