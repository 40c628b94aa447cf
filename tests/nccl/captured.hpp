// SPDX-License-Identifier: Apache-2.0
/// Graphs of what ranks enqueue.
#pragma once

#include <memory>
#include <type_traits>

#include "fssdp/comm/nccl.hpp"

namespace nccl_tests {

struct destroy_graph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using cuda_graph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, destroy_graph>;

/// What is captured while this rank calls work().
/// @throws what work throws
template <class Work>
[[nodiscard]] cuda_graph captured(fssdp::nccl_ref& comm, Work work) {
  auto graph = cudaGraph_t{};
  auto exec = cudaGraphExec_t{};
  cudaStreamBeginCapture(comm.stream(), cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(comm.stream(), &graph);
    cudaGraphDestroy(graph);
    throw;
  }
  cudaStreamEndCapture(comm.stream(), &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  return cuda_graph{exec};
}

}  // namespace nccl_tests
