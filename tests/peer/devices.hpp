// SPDX-License-Identifier: Apache-2.0
/// Ranks that are devices of one process, each a thread: those of the double, or real ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <vector>

#include "fssdp/comm/peer.hpp"
#include "gpu_double/gpu_double.hpp"

namespace peer_tests {

struct world {
  int ranks = 1;
  std::chrono::milliseconds deadline = std::chrono::seconds{30};
  fssdp::copied_by copies = fssdp::copied_by::engines;
  int devices = 0;
};

[[nodiscard]] inline fssdp::peer_options options_of(world const& of) {
  return {.ranks = of.ranks,
          .devices = of.devices,
          .deadline = of.deadline,
          .kernels = gpu_double::kernels(),
          .copies = of.copies};
}

/// Calls work(comm) on every rank.
/// @throws what one of them has thrown
template <class Work>
void on_devices(world const& of, Work work) {
  fssdp::peer_world{options_of(of)}.run(work);
}

/// What work(comm) returned: [rank].
template <class Work>
[[nodiscard]] auto results_of(world const& of, Work work) {
  using result = std::invoke_result_t<Work&, fssdp::peer_communicator&>;
  auto results = std::vector<result>(static_cast<std::size_t>(of.ranks));
  on_devices(of,
             [&](fssdp::peer_communicator& comm) { results[comm.rank().index()] = work(comm); });
  return results;
}

/// What work(comm) threw on each rank, null if nothing: [rank]. The world learns of it, too.
template <class Work>
[[nodiscard]] std::vector<std::exception_ptr> thrown_by(world const& of, Work work) {
  auto thrown = std::vector<std::exception_ptr>(static_cast<std::size_t>(of.ranks));
  try {
    on_devices(of, [&](fssdp::peer_communicator& comm) {
      try {
        work(comm);
      } catch (...) {
        thrown[comm.rank().index()] = std::current_exception();
        throw;
      }
    });
  } catch (...) {  // one of those
  }
  return thrown;
}

}  // namespace peer_tests
