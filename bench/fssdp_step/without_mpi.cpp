// SPDX-License-Identifier: Apache-2.0
// Without MPI: --backend mpi is an error that says so.
#include <stdexcept>

#include "device_group.hpp"

namespace step {

std::unique_ptr<device_group> join_processes(std::chrono::milliseconds) {
  throw std::invalid_argument{
      "--backend mpi: this program was built without MPI; expected libopenmpi-dev when it is "
      "built"};
}

}  // namespace step
