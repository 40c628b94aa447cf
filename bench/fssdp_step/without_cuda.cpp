// SPDX-License-Identifier: Apache-2.0
// Without CUDA: --backend cuda is an error that says so.
#include <stdexcept>

#include "device_group.hpp"

namespace step {

std::unique_ptr<device_group> join_cuda(std::chrono::milliseconds) {
  throw std::invalid_argument{
      "--backend cuda: this program was built without CUDA; expected another --backend"};
}

}  // namespace step
