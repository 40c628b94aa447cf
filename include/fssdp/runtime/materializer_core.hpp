// SPDX-License-Identifier: Apache-2.0
/// The untyped implementation of the materializer: pools, layers, metrics.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/coded_work.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/placement/any_load_predictor.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/runtime/calibration.hpp"
#include "fssdp/runtime/expert_shards.hpp"
#include "fssdp/runtime/gathered_replicas.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/iteration_metrics.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/runtime/materializer_options.hpp"
#include "fssdp/runtime/materializer_policy.hpp"
#include "fssdp/runtime/next_plans.hpp"
#include "fssdp/runtime/partial_sums.hpp"
#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/solver/fit_slots.hpp"

namespace fssdp::detail {

/// Returns the queue if shards and options fit it.
/// @throws argument_error otherwise
[[nodiscard]] inline work_queue const& fitting(work_queue const& queue, expert_shards const& shards,
                                               materializer_options const& options) {
  require(queue.size() == shards.layouts().ranks(), "materializer: the communicator has ",
          queue.size(), " ranks; expected ", shards.layouts().ranks(), ", as in the layouts");
  check_options(options, queue.in_host_memory());
  check_sharing(options, queue.rank(), queue.size());
  shards.check(queue.rank());
  return queue;
}

[[nodiscard]] inline layer_setting setting_for(work_queue const& queue, expert_shards const& shards,
                                               materializer_policy const& policy,
                                               materializer_options const& options) {
  require(policy.planner != nullptr, "materializer: the planner is null; expected ",
          "make_requested_plan, a plan_cache or another planner");
  for (auto const* const coding : {&policy.gather_coding, &policy.reduce_coding})
    if (coding->codes() && !queue.in_host_memory())
      check_codec_of_device("materializer", coding->coder());
  auto tensors = shards.types(options.replica_type, options.partial_type);
  auto const same_type = std::ranges::all_of(
      tensors, [](tensor_types const& tensor) { return tensor.weight == tensor.replica; });
  auto const slices = shards.layouts().slices();
  auto chunk_bytes = std::size_t{0};
  for (auto const& tensor : tensors)
    chunk_bytes += slice_elements(tensor.elements, slices) * bytes_of(tensor.replica);
  return {.rank = queue.rank(),
          .tensors = std::move(tensors),
          .gather_coding = policy.gather_coding,
          .reduce_coding = policy.reduce_coding,
          .in_place = same_type && !policy.gather_coding.codes() && !options.in_one_piece,
          .topology = topology_or_one_node(options.topology, shards.layouts().ranks()),
          .planner = policy.planner,
          .schedule = options.schedule,
          .chunk_bytes = chunk_bytes,
          .device_scratch = options.device_scratch,
          .trace = options.trace};
}

/// The calls of `materializer`, where they are documented.
class materializer_core {
 public:
  materializer_core(work_queue const& queue, expert_shards shards, materializer_policy policy,
                    materializer_options const& options)
      : queue_{fitting(queue, shards, options)},
        shards_{std::move(shards)},
        layouts_{shards_.layouts()},
        policy_{std::move(policy)},
        options_{options},
        setting_{setting_for(queue_, shards_, policy_, options_)},
        meter_{queue_, options.trace},
        replicas_{
            queue_,
            meter_,
            {options.replica_slots, {setting_.tensors, &tensor_types::replica}, options.memory}},
        partials_{
            queue_,
            meter_,
            {options.partial_slots, {setting_.tensors, &tensor_types::partial}, options.memory}},
        next_{{queue_, setting_, policy_, options_}, meter_, layers_} {
    auto predictor = policy_.predictor;
    predictor.resize(layouts_.experts_per_layer());
    for (auto const layer : first_n<layer_id>(layouts_.layers()))
      layers_.emplace_back(layer, setting_, scratch_, predictor).look_at(layouts_, shards_);
    check_own_slots();
  }
  materializer_core(materializer_core const&) = delete;
  materializer_core& operator=(materializer_core const&) = delete;
  ~materializer_core() {
    for (auto& layer : layers_) layer.settle();
    meter_.settle();
  }

  [[nodiscard]] layer_stack<table_layout> const& layouts() const { return layouts_; }
  [[nodiscard]] std::span<tensor_types const> tensors() const { return setting_.tensors; }
  [[nodiscard]] materializer_options const& options() const { return options_; }
  /// @throws argument_error if there is no such layer
  [[nodiscard]] materialized_layer const& at(layer_id which) const {
    require(which.value() >= 0 && which.value() < layouts_.layers(), "materializer: layer ", which,
            "; expected 0 to ", layouts_.layers() - 1);
    return layers_[which.index()];
  }
  [[nodiscard]] materialized_layer& at(layer_id which) {
    return const_cast<materialized_layer&>(std::as_const(*this).at(which));
  }

  [[nodiscard]] transfer_plan const& plan(layer_id which) {
    at(which).state.require_placement();
    meter_.wait(at(which).planned);
    return *at(which).replicas.plan;
  }

  void prefetch(layer_id which) {
    if (at(which).state.replicas() == replica_state::sharded && !gather(which, shortage::waits))
      ++meter_.metrics.prefetches_put_off;
  }

  void acquire(layer_id which, int micro_batch, training_pass way) {
    auto& layer = at(which);
    layer.state.require_not_acquired(micro_batch);
    if (layer.state.replicas() == replica_state::sharded) (void)gather(which, shortage::ends);
    auto const is_forward = way == training_pass::forward;
    auto const left = is_forward ? layouts_.layers() - 1 - which.value() : which.value();
    for (int step = 1; step <= std::min(options_.prefetch_distance, left); ++step)
      prefetch(layer_id{which.value() + (is_forward ? step : -step)});
    replicas_.finish(layer);
    layer.state.acquire(micro_batch);
  }

  void release(layer_id which, int micro_batch) {
    auto& layer = at(which);
    layer.state.release(micro_batch);
    if (!layer.state.in_use() && options_.replicas == retention::rematerialize)
      replicas_.drop(layer);
  }

  bool calibrate(layer_id which, token_counts const& counts) {
    auto& layer = at(which);
    layer.state.require_calibratable();
    if (options_.in_one_piece) return false;
    auto const& layout = layer.layout();
    auto found =
        fssdp::calibrate(*layer.where, policy_.placement(counts.loads(), layout), layout, counts,
                         {.slots = replicas_.pool().longest(),
                          .use = setting_.use(),
                          .to = setting_.added_to(),
                          .chunk_bytes = setting_.chunk_bytes,
                          .seconds_per_row = options_.seconds_per_row,
                          .topology = setting_.topology,
                          .routing = options_.routing});
    if (!found.has_value()) return false;
    if (found->saved_seconds <= found->gather_seconds) {
      ++meter_.metrics.calibrations_rejected;
      return false;
    }
    ++meter_.metrics.calibrations_accepted;
    next_.announce_calibrated(layer, *found);
    replicas_.add(layer, std::move(found->plan), found->slots, setting_.use());
    layer.extend(std::move(found->where));
    meter_.expose([&] { layer.begin_plan(queue_); });
    return true;
  }

  /// The buffer in which the partial gradients of a layer are accumulated.
  [[nodiscard]] std::span<tensor_view const> room_for_partials(layer_id which) {
    auto& layer = at(which);
    layer.state.require_placement();
    return partials_.of(layer,
                        most_slots_used(*layer.where, layer.layout(), slot_use::materialized));
  }
  /// Begins to reduce the partials in the pool.
  void reduce(layer_id which) {
    begin_reduction(at(which), tensor_list{room_for_partials(which)});  // zeros by default
  }
  void reduce_own(layer_id which, tensor_list own) {
    auto& layer = at(which);
    layer.state.require_placement();
    check_partials("materializer", {"partials", own.all()}, shards_.elements(),
                   layer.held().size());
    for (std::size_t k = 0; k < own.all().size(); ++k)
      require(own.all()[k].type == setting_.tensors[k].partial, "materializer: tensor ", k,
              " is reduced as ", name_of(own.all()[k].type), "; expected ",
              name_of(setting_.tensors[k].partial));
    partials_.finish(layer);
    layer.state.require_no_partials();
    begin_reduction(layer, std::move(own));
  }

  void record(layer_id which, std::span<std::uint64_t const> loads,
              std::span<std::uint64_t const> device_loads) {
    auto const experts = static_cast<std::size_t>(layouts_.experts_per_layer());
    require(loads.size() == experts, "materializer: record for layer ", which, " has ",
            loads.size(), " loads; expected ", experts, ", one per expert");
    at(which).record(loads, device_loads);
  }

  iteration_metrics step() {
    for (auto const& layer : layers_) layer.state.require_closed();
    partials_.finish_all();
    for (auto& layer : layers_) {
      replicas_.drop(layer);
      if (!layer.recorded_devices.empty()) meter_.balance(layer.recorded_devices);
      layer.end_iteration();
    }
    ++iterations_;
    auto const metrics = meter_.close(replicas_.pool(), partials_.pool());
    next_.forget_announced();
    announce_plans();
    return metrics;
  }

  iteration_metrics step(function_ref<void(iteration_metrics const&)> update, tensor_list moved) {
    auto metrics = step();
    update(metrics);
    if (!is_reshard_due() || !policy_.sharding.moves_experts()) return metrics;
    auto loads = std::vector<expert_loads>{};
    for (auto const& layer : layers_) loads.push_back(layer.expected.predict());
    auto const next = policy_.sharding(layouts_, loads, setting_.topology);
    ++(next.has_value() ? metrics.reshardings_accepted : metrics.reshardings_rejected);
    if (next.has_value()) reshard(*next, std::move(moved));
    return metrics;
  }
  [[nodiscard]] bool is_reshard_due() const {
    return options_.reshard_every > 0 && iterations_ > 0 &&
           iterations_ % options_.reshard_every == 0;
  }
  void reshard(layer_stack<table_layout> const& next, tensor_list moved) {
    for (auto const& arena : {shards_.weights(), shards_.gradients()})  // before anything is moved
      for (auto const& tensor : arena)
        require(tensor.slots >= next.slots(queue_.rank()), "materializer: an arena of rank ",
                queue_.rank(), " has ", tensor.slots, " slots; expected ",
                next.slots(queue_.rank()), " or more for the next layouts");
    auto const call =
        reshard_call{reshard_plan{layouts_, next}, std::move(moved), reshard_options{}};
    call.check(queue_.rank(), queue_.size());
    next_.finish_all();
    auto over = stream_event{};
    on_sound_stream(queue_, [&] {
      queue_.submit(
          [](void* of, communicator_ref const& comm) {
            (*static_cast<reshard_call const*>(of))(comm);
          },
          const_cast<reshard_call*>(&call), over.next());
    });
    queue_.synchronize();
    layouts_ = next;
    for (auto& layer : layers_) layer.look_at(layouts_, shards_);
    next_.forget_announced();
    announce_plans();
  }

 private:
  /// @throws argument_error unless the experts that ranks own have room where they take replica slots
  void check_own_slots() const {
    for (auto const& layer : layers_) {
      auto const own = most_slots_used(placement{layer.layout()}, layer.layout(), setting_.use());
      require(own <= replicas_.pool().slots(), "materializer: replica_slots is ",
              replicas_.pool().slots(), "; expected at least ", own, ": the own experts of layer ",
              layer.id, " take slots, as they are converted, decoded, sliced or in one piece");
    }
  }

  /// What a gather does if the pool has no room: wait for a later call, or fail.
  enum class shortage { waits, ends };

  /// Begins to gather a layer.
  /// @return false if the gather is deferred, as the pool has no room
  bool gather(layer_id which, shortage when) {
    announce_plans();
    auto& layer = at(which);
    next_.finish(layer);
    if (layer.state.placement() == placement_state::open && !place(layer, when)) return false;
    meter_.expose([&] { layer.begin_plan(queue_); });
    auto const count = most_slots_used(*layer.where, layer.layout(), setting_.use());
    auto const has_room = replicas_.gather(layer, count);
    require(has_room || when == shortage::waits, "materializer: layer ", which, " needs ", count,
            " consecutive replica slots, and the pool has ", replicas_.pool().longest(),
            "; expected other layers to be released before, or more replica_slots");
    return has_room;
  }

  void announce_plans() { next_.announce(replicas_.pool().slots()); }

  /// Chooses the placement of this iteration: the solver's, shrunk to the room in the pool.
  bool place(materialized_layer& layer, shortage when) {
    auto const loads = layer.expected.predict();
    auto where = layer.wanted(loads, policy_.placement, options_.load_tolerance);
    auto const room = replicas_.pool().longest();
    if (most_slots_used(where, layer.layout(), setting_.use()) > room) {
      auto const is_temporary = options_.replicas == retention::rematerialize;
      if (when == shortage::waits && is_temporary && replicas_.pool().used() > 0) return false;
      where = fit_slots(where, layer.layout(), loads, static_cast<int>(room), setting_.use());
      ++meter_.metrics.placements_shrunk;
    }
    layer.place(std::move(where));
    return true;
  }
  void begin_reduction(materialized_layer& layer, tensor_list from) {
    replicas_.enqueue_all();  // all ranks enqueue them in the same order
    partials_.reduce(layer, std::move(from));
    if (!layer.state.in_use()) replicas_.drop(layer);
    next_.plan_behind(layer, iterations_ + 1, replicas_.pool().slots());
  }

  work_queue queue_;
  expert_shards shards_;
  layer_stack<table_layout> layouts_;
  materializer_policy policy_;
  materializer_options options_;
  layer_setting setting_;
  iteration_meter meter_;
  gathered_replicas replicas_;
  partial_sums partials_;
  std::deque<materialized_layer> layers_;
  scratch_memory scratch_;
  int iterations_ = 0;
  next_plans next_;  // last, as its thread uses all other members
};

}  // namespace fssdp::detail
