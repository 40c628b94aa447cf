// SPDX-License-Identifier: Apache-2.0
/// What one iteration cost on one rank.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fssdp {

/// Counted between two steps. Seconds and slots are of this rank; what the solver decided and what
/// plans move is the same on all ranks. Beside a stream of a device, seconds are the host's: it
/// enqueues and goes on.
struct iteration_metrics {
  double gather_seconds = 0;   ///< time in gathers
  double reduce_seconds = 0;   ///< time in reductions
  double exposed_seconds = 0;  ///< the caller waited for either, or planned without a stream

  std::uint64_t gathers = 0;  ///< more than layers if replicas are gathered again for backward
  std::uint64_t gathered_bytes = 0;       ///< over all ranks, as they travel
  std::uint64_t reduced_bytes = 0;        ///< likewise
  std::uint64_t bytes_inside_nodes = 0;   ///< of both
  std::uint64_t bytes_between_nodes = 0;  ///< of both

  std::size_t replica_slots_peak = 0;  ///< the most that was taken of the pool at once
  std::size_t partial_slots_peak = 0;
  std::size_t replica_slots_now = 0;  ///< when the iteration was closed
  std::size_t partial_slots_now = 0;

  int placements_shrunk = 0;   ///< the pool had less room than the solver wanted
  int prefetches_put_off = 0;  ///< until the layer was acquired, as there was no room before
  int calibrations_accepted = 0;
  int calibrations_rejected = 0;  ///< the gather would have taken longer than it saves

  int reshardings_accepted = 0;  ///< behind this iteration, by `step` with a solver of owners
  int reshardings_rejected = 0;  ///< it was due, and all was to stay

  double load_max_over_mean = 1;  ///< rows of the fullest rank over the average; mean over layers
  double load_p95 = 1;            ///< the same, of the layer at the 95th percentile

  friend bool operator==(iteration_metrics const&, iteration_metrics const&) = default;
};

}  // namespace fssdp
