// SPDX-License-Identifier: Apache-2.0
// Ranks over NCCL, a device of this process for each.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "device_bounds.hpp"
#include "device_kernels.hpp"
#include "device_ranks.hpp"
#include "fssdp/comm/nccl.hpp"
#include "fssdp/comm/peer/peer_devices.hpp"
#include "measure_devices.hpp"
#include "nccl_broadcasts.hpp"

namespace perf {
namespace {

/// Copies between devices are to take the links that NCCL takes, where there are any.
void join_devices(int count) {
  try {
    (void)fssdp::detail::peer_devices{count};
  } catch (fssdp::transport_error const&) {  // then copies go over the host, as NCCL's messages do
  }
}

struct nccl_ranks {
  using communicator = fssdp::nccl_communicator;

  fssdp::nccl_world world;
  std::size_t copied = 0;  // bytes that the bound copies on each rank

  explicit nccl_ranks(int ranks) : world{{.kernels = device_kernels()}, ranks} {
    join_devices(ranks);
  }

  [[nodiscard]] static int device_of(fssdp::rank_id rank) { return rank.value(); }
  /// As much as the busiest port has to do, so that the rate is that of messages of the kind.
  template <class T>
  [[nodiscard]] auto bounds(std::deque<device_memory<T>>& of, result const& found) {
    copied = std::max<std::size_t>(found.busiest_port, found.bytes);
    return std::vector{link_copies<communicator>(of, copied)};
  }
  /// What the port that binds takes at that rate, instead of the one that was assumed.
  void tell_bound(options const& of, std::string const&, double seconds, result& found) const {
    found.bound_seconds *= of.link_bandwidth * seconds / static_cast<double>(copied);
  }
  template <class T>
  [[nodiscard]] auto broadcasts(std::deque<device_memory<T>>& of) const {
    return nccl_broadcasts(of);
  }
};

}  // namespace

void require_nccl(int ranks) {
  if (device_count() < ranks)
    throw std::invalid_argument{"--backend nccl: " + std::to_string(device_count()) +
                                " devices for " + std::to_string(ranks) +
                                " ranks; expected one for each"};
}

result measure_nccl(job const& what, options const& of) {
  auto ranks = nccl_ranks{of.ranks};
  return fssdp::with_element(of.dtype, [&]<class T>(std::type_identity<T>) {
    return measure_devices<T>(what, of, ranks);
  });
}

}  // namespace perf
