// SPDX-License-Identifier: Apache-2.0
// Without NCCL: --backend nccl is an error that says so.
#include <stdexcept>

#include "device_group.hpp"

namespace step {

std::unique_ptr<device_group> join_nccl(std::chrono::milliseconds) {
  throw std::invalid_argument{
      "--backend nccl: this program was built without NCCL; expected another --backend"};
}

}  // namespace step
