// SPDX-License-Identifier: Apache-2.0
/// One layer during an iteration: its plan, its replicas, its partial gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "fssdp/collective/wire_bytes.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/runtime/calibration.hpp"
#include "fssdp/runtime/slot_pool.hpp"
#include "fssdp/runtime/timed_work.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "fssdp/trace/trace_output.hpp"

namespace fssdp::detail {

/// Replicas in a range of a pool.
template <class Replica>
struct replica_set {
  std::optional<slot_range> range;              // taken of the pool
  std::vector<expert_id> experts;               // in its first slots, ascending
  std::vector<expert_tensor<Replica>> tensors;  // those slots
  timed_work gathered;
  wire_bytes moved;  // by that

  [[nodiscard]] bool holds(expert_id expert) const {
    return range.has_value() && std::ranges::binary_search(experts, expert);
  }
};

template <class Weight, class Gradient, class Replica, shard_layout Layout, class Coding,
          load_predictor Predictor>
struct materialized_layer {
  /// What gathers and reductions need besides: all of it outlives them.
  struct work_setting {
    std::span<std::size_t const> elements;  // of each tensor of a whole expert
    Coding const* coding;
    scratch_memory* scratch;
    std::span<std::byte> device_scratch;
  };

  materialized_layer(layer_id which, Predictor const& predictor, trace_output const& to)
      : id{which}, expected{predictor}, trace{to} {}

  /// Finds its part of the arenas. What is known about placements is forgotten.
  /// @pre nothing goes by an old plan any more
  void look_at(layer_stack<Layout> const& stack, rank_id rank,
               std::vector<expert_tensor<Weight>> const& all_weights,
               std::vector<expert_tensor<Gradient>> const& all_gradients) {
    weights = layer_shard(stack, id, rank, all_weights);
    gradients = layer_shard(stack, id, rank, all_gradients);
    where.reset();
    plan.reset();
    is_planned = false;
  }

  /// Takes a placement. The plan of another one is forgotten.
  /// @pre nothing is gathered or reduced by that any more
  void place(placement next, rank_id rank) {
    is_placed = true;
    if (where == next) return;
    (void)planned.wait();
    where = std::move(next);
    plan.reset();
    is_planned = false;
    held.clear();
    for (auto const expert : first_n<expert_id>(where->experts()))
      if (where->holds(rank, expert)) held.push_back(expert);
  }
  /// Begins to make the plan, on the lane, unless there is one.
  /// @param make() returns it
  template <communicator Comm, class Make>
  void begin_plan(Comm& lane, Make make) {
    if (is_planned) return;
    auto work = [this, make, last = planned.next()](auto& comm) mutable {
      auto range = trace_range{&trace, gather_lane, "plan", {.layer = id.value()}};
      plan = make();
      if constexpr (side_lane<Comm>) agree_on(comm, *plan);
      range.end();
      last.reach();
    };
    if constexpr (side_lane<Comm>)
      lane.prepare(std::move(work));
    else
      submit(lane, std::move(work));
    is_planned = true;
  }

  /// Begins to gather into a range, by a plan that may still have to be made on the lane.
  /// @param slots the experts that take one, ascending
  template <communicator Comm>
  void gather(Comm& lane, std::optional<transfer_plan> const& by, replica_set<Replica>& into,
              std::vector<expert_id> slots, slot_range range, slot_pool<Replica>& pool,
              work_setting const& with) {
    into.range = range;
    into.experts = std::move(slots);
    into.tensors = pool.tensors({range.first, into.experts.size()});
    into.gathered.submit(
        lane, trace, described(gather_lane, "gather", by), [this, &by, &into, with](auto& inner) {
          auto const& links = with.coding->gather;
          sparse_all_gather(inner, *by, weights, into.tensors, links,
                            {.scratch = with.scratch, .device_scratch = with.device_scratch});
          into.moved = gathered_bytes<Replica>(*by, with.elements, links);
        });
  }

  /// Begins to reduce partial gradients: [materialized, elements] per tensor.
  template <communicator Comm, class Partials>
  void reduce(Comm& lane, Partials from, work_setting const& with) {
    auto const into = has_gradients ? write_mode::accumulate : write_mode::overwrite;
    reduced.submit(
        lane, trace, described(reduce_lane, "reduce", plan), [this, from, into, with](auto& inner) {
          auto const& links = with.coding->reduce;
          using T = element_of<Partials>;
          sparse_reduce_scatter(
              inner, std::as_const(*plan), from, gradients, links,
              {.into = into, .scratch = with.scratch, .device_scratch = with.device_scratch});
          moved_back = reduced_bytes<T>(*plan, with.elements, links);
        });
    has_gradients = true;
    is_reducing = true;
  }

  /// Takes in the loads of a micro-batch: of the experts and, if they are known, of the ranks.
  void record(std::span<std::uint64_t const> loads, std::span<std::uint64_t const> device_loads) {
    auto const add = [](expert_loads& to, std::span<std::uint64_t const> from) {
      to.resize(std::max(to.size(), from.size()));
      for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
    };
    add(recorded, loads);
    add(recorded_devices, device_loads);
  }
  /// Nothing of this iteration is left but what is predicted from its loads.
  void end_iteration() {
    if (!recorded.empty()) expected.push(recorded);
    recorded.clear();
    recorded_devices.clear();
    is_placed = false;
    was_released = false;
    has_gradients = false;
  }
  /// @throws argument_error unless an iteration can be closed, ...
  void require_closed() const {
    require(users.empty(), "materializer: step while ", users.size(), " micro-batches have layer ",
            id, "; expected release before");
    if (!is_reducing) require_no_partials();
  }
  /// ... nothing has been added up that waits for its reduction, ...
  void require_no_partials() const {
    require(!partial_range.has_value(), "materializer: layer ", id,
            " has partial gradients in the pool; expected reduce for them before");
  }
  /// ... and it is known who holds what.
  void require_placement() const {
    require(is_placed, "materializer: layer ", id,
            " has no placement yet; expected prefetch or acquire before");
  }
  /// Waits for all work that uses its memory.
  void settle() {
    (void)planned.wait();
    for (auto* work : {&replicas.gathered, &added.gathered, &reduced}) (void)work->wait();
  }

  /// The experts that a rank needs slots for, ascending.
  [[nodiscard]] std::vector<expert_id> in_slots(Layout const& layout, rank_id rank) const {
    auto list = std::vector<expert_id>{};
    for (auto const expert : held)
      if (!is_in_place(layout, rank, expert)) list.push_back(expert);
    return list;
  }
  /// One view of all that the rank holds: its own experts in place, the others in their slots.
  void show(Layout const& layout, rank_id rank) {
    auto tensors = std::vector<std::span<Replica const>>{};
    auto const add = [&](auto const& from, std::size_t slot) {
      for (auto const& tensor : from) tensors.push_back(tensor[slot]);
    };
    for (auto const expert : held) {
      if constexpr (in_place) {
        if (is_in_place(layout, rank, expert)) {
          add(weights, static_cast<std::size_t>(layout.slot(expert)));
          continue;
        }
      }
      auto const& set = replicas.holds(expert) && !is_renewed(expert) ? replicas : added;
      add(set.tensors, transfer_plan::slot_in(std::span{set.experts}, expert));
    }
    experts.emplace(held, std::move(tensors));
  }

  /// Whether experts travel as payloads.
  static constexpr auto is_coded = !std::is_same_v<decltype(Coding::gather), uncoded>;
  /// Whom calibration gathers an expert for.
  static constexpr auto added_to = is_coded ? receivers::all_holders : receivers::newcomers;
  /// Whether owners compute with their shards: else with copies that are what the others get.
  static constexpr auto in_place = std::is_same_v<Weight, Replica> && !is_coded;

  layer_id id;
  Predictor expected;             // loads
  expert_loads recorded;          // of all micro-batches so far
  expert_loads recorded_devices;  // likewise, [ranks]
  std::vector<expert_tensor<Weight>> weights;
  std::vector<expert_tensor<Gradient>> gradients;

  std::optional<placement> where;  // of this iteration, or of an earlier one
  bool is_placed = false;          // it is that of this iteration
  std::vector<expert_id> held;     // by this rank, ascending
  bool is_planned = false;         // or is being planned
  stream_event planned;
  std::optional<transfer_plan> plan;  // of the lane, until it is planned
  replica_set<Replica> replicas;
  bool is_gathering = false;
  std::optional<transfer_plan> added_plan;  // by calibration, to what was there
  replica_set<Replica> added;
  std::optional<materialized_experts<Replica const>> experts;
  std::vector<int> users;     // micro-batches
  bool was_released = false;  // by all of them, in this iteration

  std::optional<slot_range> partial_range;
  std::vector<expert_tensor<Replica>> partials;
  timed_work reduced;
  wire_bytes moved_back;  // by that
  bool is_reducing = false;
  bool has_gradients = false;

  trace_output trace;

 private:
  [[nodiscard]] static bool is_in_place(Layout const& layout, rank_id rank, expert_id expert) {
    return in_place && layout.slices() == 1 && layout.owner(expert) == rank;
  }
  /// Whether calibration has had an expert gathered for all that hold it.
  [[nodiscard]] bool is_renewed(expert_id expert) const {
    return is_coded && added.holds(expert) && added_plan->where().holders(expert).size() > 1;
  }
  /// What work by a plan is in a trace.
  [[nodiscard]] auto described(trace_lane row, static_text name,
                               std::optional<transfer_plan> const& by) const {
    return [this, row, name, &by] {
      return traced_work{row, name, {.layer = id.value(), .plan = by->hash_value()}};
    };
  }
};

}  // namespace fssdp::detail
