// SPDX-License-Identifier: Apache-2.0
/// One layer during an iteration: its plan, its replicas, its partial gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/codec/link_coding.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "fssdp/collective/wire_bytes.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"
#include "fssdp/placement/any_load_predictor.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/runtime/calibration.hpp"
#include "fssdp/runtime/expert_shards.hpp"
#include "fssdp/runtime/layer_state.hpp"
#include "fssdp/runtime/slot_pool.hpp"
#include "fssdp/runtime/timed_work.hpp"
#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/solver/any_solver.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "fssdp/trace/trace_rows.hpp"

namespace fssdp::detail {

/// What all layers of a materializer have in common.
struct layer_setting {
  rank_id rank;
  std::vector<tensor_types> tensors;  // of a whole expert
  link_coding gather_coding;
  link_coding reduce_coding;
  bool in_place;  // owners compute with their shards, not with copies
  fssdp::topology topology;
  fssdp::planner planner;
  std::optional<schedule_options> schedule;
  std::size_t chunk_bytes;
  std::span<std::byte> device_scratch;
  trace_output trace;

  [[nodiscard]] slot_use use() const {
    return in_place ? slot_use::remote : slot_use::materialized;
  }
  /// Which ranks receive an expert for which calibration adds replicas.
  [[nodiscard]] receivers added_to() const {
    return gather_coding.codes() ? receivers::all_holders : receivers::newcomers;
  }
};

/// A solver's placement, and the loads for which it was made.
struct solved_placement {
  expert_loads loads;
  placement where;
};

/// A layer's expected placement and plan for the next iteration, made before that begins, so that
/// ranks can compare plans in advance.
struct next_iteration {
  placement where = {};                    // shrunk to the room that is expected
  std::optional<transfer_plan> plan = {};  // none if the layer already has this plan
};

/// For which iteration, and after how many recorded micro-batches, a layer was last planned ahead.
struct planning_state {
  int iteration = 0;
  int records = 0;
  friend bool operator==(planning_state const&, planning_state const&) = default;
};

class materialized_layer;

/// Replicas in a range of slots of a pool.
struct replica_set {
  explicit replica_set(materialized_layer& layer) : of{layer} {}

  [[nodiscard]] bool holds(expert_id expert) const {
    return range.has_value() && std::ranges::binary_search(experts, expert);
  }

  materialized_layer& of;
  std::optional<transfer_plan> plan;  // written on the stream until it is planned
  std::optional<slot_range> range;    // taken from the pool
  std::vector<expert_id> experts;     // in its first slots, ascending
  std::vector<tensor_view> tensors;   // those slots
  timed_work gathered;
  wire_bytes moved;  // by that gather
};

/// Members are changed on the caller's thread. Work on the stream reads what does not change until
/// it is done; it writes plans and byte counts, which the caller reads after that.
class materialized_layer {
 public:
  /// @pre setting and scratch outlive it
  materialized_layer(layer_id which, layer_setting const& setting, scratch_memory& scratch,
                     any_load_predictor predictor)
      : id{which},
        state{which},
        expected{std::move(predictor)},
        setting_{setting},
        scratch_{scratch} {}
  materialized_layer(materialized_layer const&) = delete;
  materialized_layer& operator=(materialized_layer const&) = delete;

  /// Finds its part of the arenas, and forgets placements and plans of the former layout.
  /// @pre no work by an old plan is in flight
  void look_at(layer_stack<table_layout> const& stack, expert_shards const& shards) {
    layout_ = &stack.layer(id);
    auto const first = static_cast<std::size_t>(stack.first_slot(id, setting_.rank));
    auto const count = layout_->owned(setting_.rank).size();
    auto const part = [&](std::span<tensor_view const> arena) {
      auto views = std::vector<tensor_view>{};
      for (auto const& tensor : arena) views.push_back(tensor.part(first, count));
      return views;
    };
    weights_ = part(shards.weights());
    gradients_ = part(shards.gradients());
    where.reset();
    solved.reset();
    next.reset();
    replicas.plan.reset();
    is_planned_ = false;
  }

  [[nodiscard]] table_layout const& layout() const { return *layout_; }
  /// The experts that the rank holds, ascending.
  [[nodiscard]] std::span<expert_id const> held() const { return held_; }

  /// The solver's placement for these loads. The solver is asked only if they differ from the last
  /// ones. With tolerance 0 the result depends on the loads alone, so a resumed run continues
  /// alike.
  [[nodiscard]] placement const& wanted(expert_loads const& loads,
                                        any_placement_solver const& solve, double tolerance) {
    if (!is_solved(loads, tolerance))
      take_solved(loads, solved.has_value() && tolerance > 0 ? solve(loads, *layout_, solved->where)
                                                             : solve(loads, *layout_));
    return solved->where;
  }
  /// Whether that placement is known without asking the solver.
  [[nodiscard]] bool is_solved(expert_loads const& loads, double tolerance) const {
    return solved.has_value() && (tolerance == 0 ? solved->loads == loads
                                                 : load_change(solved->loads, loads) <= tolerance);
  }
  void take_solved(expert_loads const& loads, placement wanted_then) {
    check_contains(wanted_then, *layout_);  // solvers are the user's
    solved = solved_placement{loads, std::move(wanted_then)};
  }
  /// Sets the placement of this iteration; a plan for another placement is forgotten.
  /// @pre no gather or reduction by that plan is in flight
  void place(placement chosen) {
    state.place();
    take(std::move(chosen));
  }
  /// Sets a placement with more replicas than the current one.
  void extend(placement chosen) {
    state.calibrate();
    take(std::move(chosen));
  }
  /// Makes the plan for the placement that the layer is expected to take next.
  /// @param made the plan, if another rank has made it
  void plan_next(placement const& expected_place, std::optional<transfer_plan> made = {}) {
    if (!next.has_value()) next.emplace();
    if (is_planned_ && where == expected_place)
      next->plan.reset();
    else if (!next->plan.has_value() || next->where != expected_place)
      next->plan =
          made.has_value() ? checked(std::move(*made), expected_place) : plan_for(expected_place);
    next->where = expected_place;
  }
  /// The plan that is expected for the next iteration.
  [[nodiscard]] transfer_plan const& next_plan() const {
    return next->plan.has_value() ? *next->plan : *replicas.plan;
  }
  /// Begins to make the plan on the stream, unless there is one.
  void begin_plan(work_queue const& queue) {
    if (is_planned_) return;
    queue.prepare(
        [](void* self, communicator_ref const& comm) {
          static_cast<materialized_layer*>(self)->make_plan_now(comm);
        },
        this, planned.next());
    is_planned_ = true;
  }

  /// Begins to gather into a set. Its plan may still be in the making, on the same stream.
  void gather(work_queue const& queue, replica_set& into) {
    into.gathered.submit(
        queue,
        [](void* set, communicator_ref const& comm) {
          auto& to = *static_cast<replica_set*>(set);
          to.of.gather_now(comm, to);
        },
        &into);
  }
  /// Begins to reduce partial gradients: [materialized, elements] per tensor.
  void reduce(work_queue const& queue, tensor_list from) {
    partials_ = std::move(from);
    into_ = state.has_gradients() ? write_mode::accumulate : write_mode::overwrite;
    reduced.submit(
        queue,
        [](void* self, communicator_ref const& comm) {
          static_cast<materialized_layer*>(self)->reduce_now(comm);
        },
        this);
    state.begin_reduction();
  }

  /// Adds the loads of one micro-batch.
  void record(std::span<std::uint64_t const> loads, std::span<std::uint64_t const> devices) {
    auto const add = [](expert_loads& sum, std::span<std::uint64_t const> more) {
      if (more.empty()) return;
      sum.resize(more.size());
      std::ranges::transform(sum, more, sum.begin(), std::plus{});
    };
    ++records;
    add(recorded, loads);
    add(recorded_devices, devices);
  }
  /// @pre require_closed accepts the state, and the replicas have been dropped
  void end_iteration() {
    if (!recorded.empty()) expected.push(recorded);
    records = 0;
    recorded.clear();
    recorded_devices.clear();
    state.end_iteration();
  }
  /// Waits for all work that uses its memory.
  void settle() {
    (void)next_planned.wait();
    (void)planned.wait();
    for (auto* work : {&replicas.gathered, &added.gathered, &reduced}) work->settle();
  }

  /// The experts that need slots on this rank, ascending.
  [[nodiscard]] std::vector<expert_id> in_slots() const {
    auto list = std::vector<expert_id>{};
    for (auto const expert : held_)
      if (!is_in_place(expert)) list.push_back(expert);
    return list;
  }
  /// All experts that the rank holds, [materialized * tensors], each tensor with one slot: its own
  /// experts in the arena, the others in the pool.
  [[nodiscard]] std::vector<tensor_view> views() const {
    auto tensors = std::vector<tensor_view>{};
    for (auto const expert : held_) {
      auto const [from, slot] = find(expert);
      for (auto const& tensor : *from) tensors.push_back(tensor.one(slot));
    }
    return tensors;
  }

  layer_id id;
  layer_state state;
  any_load_predictor expected;    // loads
  int records = 0;                // micro-batches recorded in this iteration
  expert_loads recorded;          // the sum of their loads
  expert_loads recorded_devices;  // the sum of their rows per rank, [ranks]

  std::optional<placement> where;          // of this iteration, or of an earlier one
  std::optional<solved_placement> solved;  // the planning thread writes this ...
  std::optional<next_iteration> next;      // ... and this, until it has planned the layer
  planning_state planned_by;
  stream_event next_planned;
  stream_event planned;
  replica_set replicas{*this};
  replica_set added{*this};  // by calibration

  std::optional<slot_range> partial_range;
  std::vector<tensor_view> partials;  // in that range
  timed_work reduced;
  wire_bytes moved_back;  // by that reduction

 private:
  void take(placement chosen) {
    if (where == chosen) return;
    (void)planned.wait();
    where = std::move(chosen);
    replicas.plan.reset();
    if (next.has_value() && next->where == *where) replicas.plan = std::exchange(next->plan, {});
    is_planned_ = replicas.plan.has_value();
    held_.clear();
    for (auto const expert : first_n<expert_id>(where->experts()))
      if (where->holds(setting_.rank, expert)) held_.push_back(expert);
  }

  [[nodiscard]] transfer_plan plan_for(placement const& of) const {
    auto const range = trace_range{&setting_.trace, gather_track, "plan", {.layer = id.value()}};
    return checked(setting_.planner({.layout = *layout_,
                                     .where = of,
                                     .topology = setting_.topology,
                                     .chunk_bytes = setting_.chunk_bytes,
                                     .schedule = setting_.schedule}),
                   of);
  }
  [[nodiscard]] transfer_plan checked(transfer_plan plan, placement const& of) const {
    require(plan.where() == of, "materializer: the plan that the planner returned for layer ", id,
            " has another placement; expected that of the request");
    return plan;
  }
  /// Makes a plan that was not announced: ranks compare it separately.
  void make_plan_now(communicator_ref const& comm) {
    replicas.plan = plan_for(*where);
    comm.announce(hashes_of(*replicas.plan));
  }
  void gather_now(communicator_ref const& comm, replica_set& to) const {
    auto const range = traced(gather_track, "gather", *to.plan);
    auto const call =
        gather_call{*to.plan,
                    setting_.rank,
                    tensor_list{std::span{weights_}},
                    tensor_list{std::span{std::as_const(to.tensors)}},
                    &runtime_conversion,
                    {.scratch = &scratch_, .device_scratch = setting_.device_scratch}};
    auto const& coding = setting_.gather_coding;
    auto const shapes = tensor_list{setting_.tensors, &tensor_types::replica};
    if (coding.codes()) {
      auto const coder = coding.coder();
      auto const traffic = coded_traffic{*to.plan, coder, coding.on()};
      call.check_coded(comm.size());
      call.run_coded(comm, coder, coding.on());
      to.moved = gathered_bytes(*to.plan, shapes, &traffic);
    } else {
      call.check(comm.size());
      call(comm);
      to.moved = gathered_bytes(*to.plan, shapes);
    }
  }
  void reduce_now(communicator_ref const& comm) {
    auto const& plan = *replicas.plan;
    auto const range = traced(reduce_track, "reduce", plan);
    auto const call = reduction_call{
        plan,
        setting_.rank,
        partials_,
        tensor_list{std::span{std::as_const(gradients_)}},
        &runtime_sum_of,
        {.into = into_, .scratch = &scratch_, .device_scratch = setting_.device_scratch}};
    auto const& coding = setting_.reduce_coding;
    auto const shapes = tensor_list{setting_.tensors, &tensor_types::partial};
    call.check(comm.size());
    if (coding.codes()) {
      auto const coder = coding.coder();
      auto const traffic = coded_traffic{plan.reduction(), coder, coding.on()};
      call.run_coded(comm, coder, coding.on());
      moved_back = reduced_bytes(plan, shapes, &traffic);
    } else {
      call(comm);
      moved_back = reduced_bytes(plan, shapes);
    }
  }

  /// Where an expert is that the rank holds.
  [[nodiscard]] std::pair<std::vector<tensor_view> const*, std::size_t> find(
      expert_id expert) const {
    if (is_in_place(expert)) return {&weights_, static_cast<std::size_t>(layout_->slot(expert))};
    auto const& set = replicas.holds(expert) && !is_renewed(expert) ? replicas : added;
    return {&set.tensors, transfer_plan::slot_in(std::span{set.experts}, expert)};
  }
  [[nodiscard]] bool is_in_place(expert_id expert) const {
    return setting_.in_place && layout_->slices() == 1 && layout_->owner(expert) == setting_.rank;
  }
  /// Whether calibration has gathered an expert again for all ranks that hold it.
  [[nodiscard]] bool is_renewed(expert_id expert) const {
    return setting_.gather_coding.codes() && added.holds(expert) &&
           added.plan->where().holders(expert).size() > 1;
  }
  [[nodiscard]] trace_range<trace_output const> traced(trace_track row, static_text name,
                                                       transfer_plan const& by) const {
    return {&setting_.trace, row, name, {.layer = id.value(), .plan = by.hash_value()}};
  }

  layer_setting const& setting_;
  scratch_memory& scratch_;
  table_layout const* layout_ = nullptr;
  std::vector<tensor_view> weights_;
  std::vector<tensor_view> gradients_;
  std::vector<expert_id> held_;
  bool is_planned_ = false;                  // or the plan is in the making
  tensor_list partials_;                     // the input of the reduction in flight, ...
  write_mode into_ = write_mode::overwrite;  // ... and how it writes gradients
};

}  // namespace fssdp::detail
