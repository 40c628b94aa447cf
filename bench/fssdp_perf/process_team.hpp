// SPDX-License-Identifier: Apache-2.0
/// Processes that MPI has started, one for each rank.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "any_memory.hpp"
#include "contestant.hpp"
#include "fssdp/comm/shared_memory.hpp"
#include "measured_plan.hpp"
#include "names.hpp"

namespace perf {

/// What messages of MPI's own between the processes attain, and plain copies.
struct measured_links {
  double inside_bytes_per_second = 0;   ///< of a rank, when all send and receive at once
  double copied_bytes_per_second = 0;   ///< of one that copies while all others wait
  double between_bytes_per_second = 0;  ///< of a node, likewise; 0 if there is only one
  double inside_latency_seconds = 0;
  double between_latency_seconds = 0;
};

/// Ranks that are processes, or the processes of a baseline beside ranks that are threads: process
/// 0 then does everything else as well. Those that wait sleep in the kernel.
class process_team {
 public:
  process_team() = default;
  process_team(process_team const&) = delete;
  process_team& operator=(process_team const&) = delete;
  virtual ~process_team() = default;

  [[nodiscard]] virtual fssdp::rank_id rank() const = 0;
  /// The number of hosts; each has as many ranks as the others, in a row.
  [[nodiscard]] virtual int nodes() const = 0;
  /// Called by every process: all get the same.
  [[nodiscard]] virtual measured_links measure_links() = 0;
  /// Sleeps until all processes are here.
  virtual void wait() = 0;
  /// Called by every process: they begin together. Returns the seconds from the first begin to the
  /// last end, on every process.
  virtual double time(std::function<void()> const& work) = 0;
  /// The sum over all processes.
  virtual std::size_t sum(std::size_t value) = 0;
  /// Memory that the other processes of the host can read.
  [[nodiscard]] virtual fssdp::shared_memory& memory() = 0;
  /// Ends all processes, this one too.
  virtual void abort() = 0;
};

/// @throws std::invalid_argument if the program was built without MPI, or runs in another number of
///         processes
[[nodiscard]] std::unique_ptr<process_team> join_processes(int ranks);

/// fssdp over MPI. Called by every process.
/// @pre the plan outlives it
[[nodiscard]] contestant mpi_fssdp(process_team& team, char const* name, measured_plan const& plan,
                                   any_rank_memory mine);

/// One call for all transfers, or one for each expert; of an array, one for all blocks. Called by
/// every process.
/// @param mine of the rank that the process stands for; its plan is a direct one
/// @pre MPI sums fp32 and fp64 only
/// @throws std::invalid_argument if an expert, or the array, is larger than MPI can count
[[nodiscard]] contestant mpi_contestant(process_team& team, baseline which, any_rank_memory mine);

}  // namespace perf
