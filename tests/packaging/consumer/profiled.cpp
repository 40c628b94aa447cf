// SPDX-License-Identifier: Apache-2.0
/// A trace that goes to a profiler: NVTX comes with the target.
#include "fssdp/trace/nvtx_sink.hpp"

int main() {
  auto sink = fssdp::nvtx_sink{fssdp::rank_id{0}};
  auto const range = fssdp::trace_range{&sink, fssdp::compute_track, "forward"};
}
