// SPDX-License-Identifier: Apache-2.0
// Without CUDA: --backend cuda is an error that says so.
#include <stdexcept>

#include "device_ranks.hpp"

namespace perf {

void require_cuda() {
  throw std::invalid_argument{
      "this program was built without CUDA; expected another --backend than cuda"};
}
result measure_cuda(job const&, options const&) { throw std::logic_error{"there is no CUDA"}; }

}  // namespace perf
