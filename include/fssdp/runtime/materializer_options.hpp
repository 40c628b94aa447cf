// SPDX-License-Identifier: Apache-2.0
/// How a materializer uses memory and time.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <optional>
#include <span>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/topology/topology.hpp"
#include "fssdp/trace/trace_output.hpp"

namespace fssdp {

/// What happens to the replicas of a layer between its forward and its backward pass.
enum class retention {
  keep,          ///< they are kept: one gather, and memory for the replicas of all layers
  rematerialize  ///< released slots are reused at once: two gathers, less memory (Hecate-RM)
};

/// The direction in which layers are visited; it decides which layers are prefetched.
enum class training_pass { forward, backward };

/// Pools, prefetching and types of a materializer.
struct materializer_options {
  retention replicas = retention::keep;
  /// How many layers after the acquired one are prefetched.
  int prefetch_distance = 1;
  /// The size of the pool of replicas, for all layers together. It never grows.
  std::size_t replica_slots = 0;
  /// The type that experts are computed in; by default that of the weights. If it differs from
  /// that, owners convert once, and experts travel in this type.
  std::optional<dtype> replica_type = {};
  /// The type in which partial gradients are accumulated and sent; by default fp32, or fp64 where
  /// replicas are fp64. The gradients of owners may be of any type: a sum is rounded once. To send
  /// fewer bits without changing this type, see materializer_policy::reduce_coding.
  std::optional<dtype> partial_type = {};
  /// All experts that a rank computes with are contiguous, its own included, as batched matrix
  /// products need them (experts_in_one_piece). Then its own experts are copied and take slots of
  /// the pool, too, and `calibrate` adds nothing.
  bool in_one_piece = false;
  /// The size of the pool of partial gradients, for all layers together. With slots for two layers,
  /// a reduction can overlap with the backward pass of the next layer.
  std::size_t partial_slots = 0;
  /// Where both pools are allocated; it outlives the materializer. If ranks are processes of one
  /// host and this is memory that they share (mpi_options::shared), they read each other's partial
  /// gradients in place. Between devices it must be device memory, for instance a
  /// std::pmr::monotonic_buffer_resource over an arena.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// Between devices: as in gather_options and reduce_options.
  std::span<std::byte> device_scratch = {};
  /// The time that an expert takes for one row, forward and backward: `calibrate` compares gathers
  /// with it.
  double seconds_per_row = 0;
  /// The sharding solver is asked for new owners every this many iterations; 0: never.
  int reshard_every = 0;
  /// How the caller sends tokens to replicas: `calibrate` estimates the loads of ranks by it.
  routing_rule routing = routing_rule::even;
  /// The nodes of the ranks and the speed of their links; if empty, all ranks are on one node.
  fssdp::topology topology = {};
  /// If set, plans are scheduled: cut into pieces that use all ports evenly. Otherwise chunks move
  /// whole, and between nodes as chains.
  std::optional<schedule_options> schedule = {};
  /// A layer keeps its placement, and so its plan, while at most this share of its tokens goes to
  /// other experts than when the solver was last asked (load_change). Beyond it, a renewing_solver
  /// continues from that placement. 0.015 is within the noise of most routers. With 0, the solver
  /// is asked whenever loads differ at all: placements then do not depend on history, and a
  /// resumed run has the bits of one that was not interrupted.
  double load_tolerance = 0;
  /// Placements and plans of the next iteration are made on a thread of the materializer: from the
  /// first `reduce` on, by the loads recorded until then, so that the next iteration does not wait
  /// for solver and planner. The results are the same. In the first iteration, and where loads are
  /// recorded later, `prefetch` or `acquire` still ask the solver, which two threads may then call
  /// at the same time, as they can with any pure function.
  bool plan_ahead = false;
  /// Ranks divide the work of planning ahead among them, and send one another the results as bytes
  /// over this communicator: of the same ranks, in host memory, used by nothing else. It outlives
  /// the materializer. The results are the same. A solver or planner that throws or hangs on one
  /// rank causes an error on all ranks, within the deadline of this communicator. Pays where there
  /// are many layers, or where ranks share hosts.
  std::optional<communicator_ref> share_plans = {};
  /// Where plans, gathers, reductions and the caller's waits are traced, in the tracks gather,
  /// reduce and compute: a pointer to any trace_sink, which outlives the materializer.
  trace_output trace = {};
};

namespace detail {

/// @throws argument_error if a number is out of range, or a device cannot use the memory of the
///         pools
inline void check_options(materializer_options const& of, bool in_host_memory) {
  require(in_host_memory || of.memory != std::pmr::new_delete_resource(),
          "materializer: pools in host memory and a communicator between devices; expected "
          "materializer_options::memory to be memory that devices can use");
  require(of.prefetch_distance >= 0, "materializer: prefetch_distance is ", of.prefetch_distance,
          "; expected 0 or more");
  require(of.load_tolerance >= 0 && of.load_tolerance <= 1, "materializer: load_tolerance is ",
          of.load_tolerance, "; expected 0 to 1");
  require(of.reshard_every >= 0, "materializer: reshard_every is ", of.reshard_every,
          "; expected 0 or more");
}

/// @throws argument_error if share_plans is set and not a communicator of these ranks
inline void check_sharing(materializer_options const& of, rank_id rank, int size) {
  if (!of.share_plans.has_value()) return;
  require(of.plan_ahead, "materializer: share_plans without plan_ahead; expected both");
  require(of.share_plans->in_host_memory(),
          "materializer: share_plans is a communicator between devices; expected one of host "
          "memory");
  require(of.share_plans->rank() == rank && of.share_plans->size() == size,
          "materializer: share_plans has rank ", of.share_plans->rank(), " of ",
          of.share_plans->size(), "; expected rank ", rank, " of ", size);
}

}  // namespace detail

}  // namespace fssdp
