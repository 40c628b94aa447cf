// SPDX-License-Identifier: Apache-2.0
/// How a materializer spends memory and time.
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

/// What becomes of replicas between the forward and the backward pass of their layer.
enum class retention {
  keep,          ///< they stay: memory for all layers, one gather
  rematerialize  ///< their slots are free as soon as they are released: two gathers. (Hecate-RM)
};

/// Which way the layers are gone through: what is gathered ahead.
enum class training_pass { forward, backward };

/// Pools, order and types of what a materializer moves.
struct materializer_options {
  retention replicas = retention::keep;
  /// How many layers are gathered before they are acquired, counted from the one that is.
  int prefetch_distance = 1;
  /// The pool of replicas, for all layers together: never exceeded.
  std::size_t replica_slots = 0;
  /// The type that experts are computed with; by default that of the weights. Another one is
  /// converted at the owner, once, and travels as it is.
  std::optional<dtype> replica_type = {};
  /// The type that partial gradients are added up in, and travel in; by default fp32, and fp64
  /// where replicas are fp64. The gradients of owners may be of any type: sums become it by one
  /// rounding. For fewer bits on the wire only, see materializer_policy::reduce_coding.
  std::optional<dtype> partial_type = {};
  /// All experts that a rank computes with lie one after the other, its own among them, as
  /// products of many matrices at once want them (experts_in_one_piece). They then take slots of
  /// the pool for all of them, and a copy of its own ones; `calibrate` adds nothing.
  bool in_one_piece = false;
  /// The pool of partial gradients, likewise. Two layers' worth let a reduction hide behind the
  /// backward pass of the next layer.
  std::size_t partial_slots = 0;
  /// Where both pools lie; it outlives the materializer. Ranks that are processes of a host read
  /// each other's partial gradients in place if it is what they share (mpi_options::shared).
  /// Between devices it is a device's: a std::pmr::monotonic_buffer_resource over an arena, say.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// Between devices, as gather_options and reduce_options take it.
  std::span<std::byte> device_scratch = {};
  /// What one row costs an expert, forward and backward: what calibration weighs gathers against.
  double seconds_per_row = 0;
  /// The sharding solver is asked for other owners after this many iterations; 0: never.
  int reshard_every = 0;
  /// How the caller sends tokens to replicas: calibration estimates loads by it.
  routing_rule routing = routing_rule::even;
  /// On which nodes the ranks are, and how fast their links; without ranks: all on one node.
  fssdp::topology topology = {};
  /// Plans are scheduled: cut into pieces, balanced over all ports. Else they are direct, or chains
  /// over nodes.
  std::optional<schedule_options> schedule = {};
  /// A layer keeps its placement, and so its plan, as long as at most this share of its tokens goes
  /// to other experts than when the solver was asked (load_change); then a renewing_solver goes on
  /// from that placement. 0.015 is lost in the noise of most gates. With 0 the solver is asked again
  /// whenever loads differ at all: then placements do not depend on what has been before, and a run
  /// that is resumed has the bits of one that was not interrupted.
  double load_tolerance = 0;
  /// Placements and plans of the next iteration are made on a thread of the materializer's own:
  /// from the first `reduce` on, by the loads recorded until then, so that the iteration does not
  /// wait for solver and planner. The results are the same. In the first iteration, and where loads
  /// are recorded later, `prefetch` or `acquire` still ask the solver: it may then be called by two
  /// threads at once, as pure functions can be.
  bool plan_ahead = false;
  /// Of what is planned ahead, each rank makes its share, as bytes for all ranks: another
  /// communicator of the same ranks, in host memory, used by nothing else. It outlives the
  /// materializer. The results are the same, and a solver or planner that throws or hangs on one
  /// rank ends in an error on all, within the deadline of that communicator. Pays where there are
  /// many layers, or ranks share hosts.
  std::optional<communicator_ref> share_plans = {};
  /// Where plans, gathers and reductions are traced, and when the caller waits for them: in the
  /// tracks gather, reduce and compute. A pointer to any trace_sink, which outlives the
  /// materializer.
  trace_output trace = {};
};

namespace detail {

/// @throws argument_error that names what is negative, or pools that a device cannot reach
inline void check_options(materializer_options const& of, bool in_host_memory) {
  require(in_host_memory || of.memory != std::pmr::new_delete_resource(),
          "materializer: pools in memory of the host, and a communicator between devices; expected "
          "a resource of memory that devices can use");
  require(of.prefetch_distance >= 0, "materializer: a prefetch distance of ", of.prefetch_distance,
          "; expected 0 or more");
  require(of.load_tolerance >= 0 && of.load_tolerance <= 1, "materializer: a load_tolerance of ",
          of.load_tolerance, "; expected 0 to 1");
  require(of.reshard_every >= 0, "materializer: reshard_every ", of.reshard_every,
          "; expected 0 or more");
}

/// @throws argument_error unless plans can be shared by these ranks, if they are to be
inline void check_sharing(materializer_options const& of, rank_id rank, int size) {
  if (!of.share_plans.has_value()) return;
  require(of.plan_ahead, "materializer: share_plans; expected plan_ahead as well");
  require(of.share_plans->in_host_memory(),
          "materializer: share_plans with a communicator between devices; expected one of host "
          "memory");
  require(of.share_plans->rank() == rank && of.share_plans->size() == size,
          "materializer: share_plans as rank ", of.share_plans->rank(), " of ",
          of.share_plans->size(), "; expected rank ", rank, " of ", size);
}

}  // namespace detail

}  // namespace fssdp
