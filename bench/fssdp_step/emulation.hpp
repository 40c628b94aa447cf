// SPDX-License-Identifier: Apache-2.0
/// Devices and links that are emulated: smaller and slower than those they stand for.
#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "fssdp/topology/topology.hpp"

namespace step {

/// By how much. Bytes and bandwidths are divided by `scale`, so that their ratios stay; all times
/// are multiplied by `slow`, so that the host can keep up.
struct emulation {
  double scale = 1;
  double slow = 1;

  /// So many bytes in place of the real ones: at least 1.
  [[nodiscard]] std::size_t bytes(std::size_t real) const {
    return static_cast<std::size_t>(
        std::max<long long>(1, std::llround(static_cast<double>(real) / scale)));
  }
  /// The links of a cluster, as slow as the emulated devices need them.
  [[nodiscard]] fssdp::topology links(fssdp::topology const& real) const {
    auto const& port = real.port(fssdp::rank_id{0});
    auto const& cost = real.cost();
    return fssdp::topology{
        {.nodes = real.nodes(),
         .ranks = real.ranks(),
         .ports = {port.inside_bytes_per_second / (scale * slow),
                   port.between_bytes_per_second / (scale * slow)},
         .network = real.network(),
         .cost = {cost.inside_latency_seconds * slow, cost.between_latency_seconds * slow,
                  cost.port_seconds * slow}}};
  }
};

/// One for which a token becomes a multiple of so many bytes: the ratio of tokens to experts stays
/// as it is.
[[nodiscard]] inline emulation whole_bytes(emulation of, std::size_t token_bytes,
                                           std::size_t unit = 1) {
  auto const units = std::max<std::size_t>(1, (of.bytes(token_bytes) + unit / 2) / unit);
  of.scale = static_cast<double>(token_bytes) / static_cast<double>(units * unit);
  return of;
}

/// The processor time of the calling thread.
[[nodiscard]] inline double thread_seconds() {
  auto now = timespec{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace step
