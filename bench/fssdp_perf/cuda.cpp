// SPDX-License-Identifier: Apache-2.0
// Ranks that are devices of this process, or share them, and read each other's memory.
#include <deque>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device_bounds.hpp"
#include "device_kernels.hpp"
#include "device_ranks.hpp"
#include "fssdp/comm/peer.hpp"
#include "in_turn.hpp"
#include "measure_devices.hpp"

namespace perf {
namespace {

struct peer_ranks {
  using communicator = fssdp::peer_communicator;

  fssdp::peer_world world;

  explicit peer_ranks(int ranks) : world{{.ranks = ranks, .kernels = device_kernels()}} {}

  [[nodiscard]] int device_of(fssdp::rank_id rank) const { return world.device_of(rank); }
  template <class T>
  [[nodiscard]] auto bounds(std::deque<device_memory<T>>& of, result const&) const {
    return shared_memory_bounds<communicator>(of, device_count() == 1);
  }
  static void tell_bound(options const&, std::string name, double seconds, result& found) {
    found.bound = std::move(name);
    found.bound_seconds = seconds;
  }
  template <class T>
  [[nodiscard]] auto broadcasts(std::deque<device_memory<T>>& of) const {
    return in_turn<communicator>(of);
  }
};

}  // namespace

void require_cuda() {
  if (device_count() == 0)
    throw std::invalid_argument{"--backend cuda: no device is found; expected one at least"};
}

result measure_cuda(job const& what, options const& of) {
  auto ranks = peer_ranks{of.ranks};
  return fssdp::with_element(of.dtype, [&]<class T>(std::type_identity<T>) {
    return measure_devices<T>(what, of, ranks);
  });
}

}  // namespace perf
