// SPDX-License-Identifier: Apache-2.0
/// The metrics of one iteration on one rank.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fssdp {

/// Counted from one step to the next. Seconds and slots are of this rank; decisions of the solver
/// and bytes of plans are the same on all ranks. With a side stream of a device, seconds are host
/// time: the host enqueues and continues.
struct iteration_metrics {
  double gather_seconds = 0;   ///< time in gathers
  double reduce_seconds = 0;   ///< time in reductions
  double exposed_seconds = 0;  ///< the caller waited for either, or for planning on its own thread

  std::uint64_t gathers = 0;  ///< more than layers if replicas are gathered again for backward
  std::uint64_t gathered_bytes = 0;       ///< sent by all ranks; with a codec, bytes of payloads
  std::uint64_t reduced_bytes = 0;        ///< as above
  std::uint64_t bytes_inside_nodes = 0;   ///< of gathers and reductions
  std::uint64_t bytes_between_nodes = 0;  ///< of gathers and reductions

  std::size_t replica_slots_peak = 0;  ///< the most that were in use at once
  std::size_t partial_slots_peak = 0;
  std::size_t replica_slots_now = 0;  ///< in use at the end of the iteration
  std::size_t partial_slots_now = 0;

  int placements_shrunk = 0;   ///< the pool had less room than the solver's placement needs
  int prefetches_put_off = 0;  ///< to `acquire` of the layer, as the pool had no room before
  int calibrations_accepted = 0;
  int calibrations_rejected = 0;  ///< the gather would have taken longer than it saves

  int reshardings_accepted = 0;  ///< after this iteration, by `step` with a sharding solver
  int reshardings_rejected = 0;  ///< the solver was asked, and kept the owners

  double load_max_over_mean = 1;  ///< rows of the fullest rank over the mean; averaged over layers
  double load_p95 = 1;            ///< the same ratio of the layer at the 95th percentile

  friend bool operator==(iteration_metrics const&, iteration_metrics const&) = default;
};

}  // namespace fssdp
