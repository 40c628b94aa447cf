// SPDX-License-Identifier: Apache-2.0
// Without NCCL: --backend nccl is an error that says so.
#include <stdexcept>

#include "device_ranks.hpp"

namespace perf {

void require_nccl(int) {
  throw std::invalid_argument{
      "this program was built without NCCL; expected another --backend than nccl"};
}
result measure_nccl(job const&, options const&) { throw std::logic_error{"there is no NCCL"}; }

}  // namespace perf
