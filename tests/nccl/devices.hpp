// SPDX-License-Identifier: Apache-2.0
/// Ranks over NCCL, each a thread with a device: those of the double, or real ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "fssdp/comm/nccl.hpp"
#include "gpu_double/gpu_double.hpp"

namespace nccl_tests {

struct world {
  int ranks = 1;
  std::chrono::milliseconds deadline = std::chrono::seconds{30};
  bool may_shrink = false;
};

/// Calls work(comm) on every rank.
/// @throws what one of them has thrown
template <class Work>
void on_devices(world const& of, Work work) {
  auto const options = fssdp::nccl_options{
      .deadline = of.deadline, .kernels = gpu_double::kernels(), .may_shrink = of.may_shrink};
  fssdp::nccl_world{options, of.ranks}.run(work);
}

/// What work(comm) returned: [rank].
template <class Work>
[[nodiscard]] auto results_of(world const& of, Work work) {
  using result = std::invoke_result_t<Work&, fssdp::nccl_communicator&>;
  auto results = std::vector<result>(static_cast<std::size_t>(of.ranks));
  on_devices(of,
             [&](fssdp::nccl_communicator& comm) { results[comm.rank().index()] = work(comm); });
  return results;
}

/// What work(comm) threw on each rank, null if nothing: [rank].
template <class Work>
[[nodiscard]] std::vector<std::exception_ptr> thrown_by(world const& of, Work work) {
  return results_of(of, [&](fssdp::nccl_communicator& comm) -> std::exception_ptr {
    try {
      work(comm);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  });
}

}  // namespace nccl_tests
