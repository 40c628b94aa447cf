// SPDX-License-Identifier: Apache-2.0
// What becomes of --backend cuda where CUDA was not found.
#include <stdexcept>

#include "device_group.hpp"

namespace step {

std::unique_ptr<device_group> join_cuda(std::chrono::milliseconds) {
  throw std::invalid_argument{
      "--backend cuda: this program was built without CUDA; expected another --backend"};
}

}  // namespace step
