// SPDX-License-Identifier: Apache-2.0
/// The iteration: gathers layers before they are needed and reduces them while the next one computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/comm/communicator.hpp"
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
#include "fssdp/runtime/partial_sums.hpp"
#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/solver/fit_slots.hpp"

namespace fssdp {

/// The experts of all MoE layers of a model during training. Between steps they are sharded; during
/// one, a layer's replicas are there from `prefetch` or `acquire` to `release`, its partial
/// gradients from `partials` to `reduce`.
///
///     auto layers = materializer{comm, shards, {.placement = sparse_materialization{...}}, {...}};
///     for each layer:              layers.acquire(l)   forward(layers.experts<float>(l))
///                                  layers.release(l)
///     for each layer, backwards:   layers.acquire(l, 0, training_pass::backward)
///                                  backward(layers.experts<float>(l), layers.partials<float>(l))
///                                  layers.release(l)   layers.reduce(l)
///     layers.step();               the optimizer, on what this rank owns
///
/// Every rank makes the same calls in the same order. On a communicator that is bound to a stream,
/// gathers and reductions run while the caller computes; on another one they run in the call. The
/// bits are the same. Between devices the communicator is a side_lane (beside): what would wait is
/// then the caller's stream, not the caller.
///
/// A layer has one placement per iteration: what the solver says about the predicted loads, as far
/// as the pool has room. Nothing is allocated for parameters after construction. The states of a
/// layer are in layer_state.hpp, their picture in this folder's README.md.
/// (Paper, sections on materialization, re-materialization and calibration)
class materializer {
 public:
  /// @param comm carries gathers and reductions, nothing else
  /// @param shards what this rank owns
  /// @param policy who holds what, who owns what, what is coded on the wire
  /// @pre the communicator, the arenas and the sink of a trace outlive it
  /// @throws argument_error if shards, options or pools do not fit: before anything is allocated
  template <communicator Comm>
  materializer(Comm& comm, expert_shards shards, materializer_policy policy = {},
               materializer_options const& options = {})
      : materializer{detail::work_queue{comm}, std::move(shards), std::move(policy), options} {}
  materializer(materializer const&) = delete;
  materializer& operator=(materializer const&) = delete;
  /// Waits for the work that uses its memory.
  ~materializer() {
    for (auto& layer : layers_) layer.settle();
    meter_.settle();
  }

  [[nodiscard]] int layers() const { return layouts_.layers(); }
  [[nodiscard]] layer_stack<table_layout> const& layouts() const { return layouts_; }
  /// The loads that the next iteration is planned with.
  [[nodiscard]] expert_loads expected_loads(layer_id which) const {
    return at(which).expected.predict();
  }
  /// What expects the loads of a layer: between iterations its memory can be kept, and recalled.
  [[nodiscard]] any_load_predictor& predictor(layer_id which) { return at(which).expected; }
  /// Who holds the experts of a layer in this iteration.
  /// @pre the layer has been prefetched or acquired in it
  [[nodiscard]] placement const& where(layer_id which) const {
    at(which).state.require_placement();
    return *at(which).where;
  }
  /// How they get it. Waits until it is planned.
  /// @pre likewise
  [[nodiscard]] transfer_plan const& plan(layer_id which) {
    at(which).state.require_placement();
    meter_.wait(at(which).planned);
    return *at(which).replicas.plan;
  }

  /// Begins to gather a layer: chooses its placement, and has it planned and gathered on the stream.
  /// Nothing happens if it is there; or if there is no room now and will be: then it is gathered
  /// when it is acquired.
  /// @throws argument_error if there is no such layer; transport errors of earlier work
  void prefetch(layer_id which) {
    if (at(which).state.replicas() == replica_state::sharded && !gather(which, shortage::waits))
      ++meter_.metrics.prefetches_put_off;
  }

  /// Waits until a layer is there, and has the next ones gathered. The experts keep their addresses
  /// until all micro-batches that have acquired the layer have released it, or until `calibrate`.
  /// @throws argument_error if this micro-batch has it already, or the pool has no room for a
  ///         placement that this iteration has begun with; transport errors
  void acquire(layer_id which, int micro_batch = 0, training_pass way = training_pass::forward) {
    auto& layer = at(which);
    layer.state.require_not_acquired(micro_batch);
    if (layer.state.replicas() == replica_state::sharded) (void)gather(which, shortage::ends);
    auto const is_forward = way == training_pass::forward;
    auto const left = is_forward ? layers() - 1 - which.value() : which.value();
    for (int step = 1; step <= std::min(options_.ahead, left); ++step)
      prefetch(layer_id{which.value() + (is_forward ? step : -step)});
    replicas_.finish(layer);
    layer.state.acquire(micro_batch);
  }

  /// What this rank computes with, ascending experts: a view.
  /// @tparam T the type of replicas
  /// @pre the layer is acquired; the view is used until it is released or calibrated
  /// @throws argument_error if it is not acquired, or replicas are of another type
  template <element T>
  [[nodiscard]] materialized_experts<T const> experts(layer_id which) const {
    auto const& layer = at(which);
    layer.state.require_acquired();
    require_type<T>("experts", setting_.types.replica);
    return {layer.held(), layer.views<T const>()};
  }
  /// The same as tensors [materialized, elements], for products of many matrices at once.
  /// @throws argument_error likewise, and without materializer_options::in_one_piece
  template <element T>
  [[nodiscard]] std::vector<expert_tensor<T const>> experts_in_one_piece(layer_id which) const {
    auto const& layer = at(which);
    layer.state.require_acquired();
    require_type<T>("experts_in_one_piece", setting_.types.replica);
    detail::require(options_.in_one_piece,
                    "materializer: experts_in_one_piece; expected the option in_one_piece");
    auto tensors = std::vector<expert_tensor<T const>>{};
    for (auto const& tensor : layer.replicas.tensors) tensors.push_back(tensor.as<T const>());
    return tensors;
  }

  /// Ends what `acquire` began.
  /// @throws argument_error if this micro-batch has not acquired the layer
  void release(layer_id which, int micro_batch = 0) {
    auto& layer = at(which);
    layer.state.release(micro_batch);
    if (!layer.state.in_use() && options_.replicas == retention::rematerialize)
      replicas_.drop(layer);
  }

  /// After the gate: plans with the real loads and gathers what is missing, if that takes less time
  /// than it saves. Replicas that are there stay; coded ones that more ranks get come again to all.
  /// @param counts tokens of every rank for every expert, equal on all ranks
  /// @return whether replicas have been added: take `experts` again
  /// @pre one micro-batch has acquired the layer, the first of this iteration
  /// @throws argument_error if not; transport errors
  /// (Paper, calibration)
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
                          .cluster = setting_.cluster,
                          .routing = options_.routing});
    if (!found.has_value()) return false;
    if (found->saved_seconds <= found->gather_seconds) {
      ++meter_.metrics.calibrations_rejected;
      return false;
    }
    ++meter_.metrics.calibrations_accepted;
    replicas_.add(layer, std::move(found->plan), found->slots, setting_.use());
    layer.extend(std::move(found->where));
    meter_.expose([&] { layer.begin_plan(queue_); });
    return true;
  }

  /// Where the partial gradients of a layer are added up: [materialized, elements] per tensor, zero
  /// at first. Waits for older reductions if there is no room.
  /// @tparam T the type of partial gradients
  /// @throws argument_error if there will be none, or they are of another type; transport errors
  template <element T>
  [[nodiscard]] std::vector<expert_tensor<T>> partials(layer_id which) {
    require_type<T>("partials", setting_.types.partial);
    auto views = std::vector<expert_tensor<T>>{};
    for (auto const& tensor : room_for_partials(which)) views.push_back(tensor.as<T>());
    return views;
  }

  /// Begins to sum the partial gradients of a layer at their owners: after its last micro-batch. A
  /// second reduction in one iteration adds to the first. Replicas that nobody uses are dropped.
  /// @throws argument_error as partials; transport errors of earlier work
  void reduce(layer_id which) {
    begin_reduction(which, detail::tensor_list{room_for_partials(which)});  // without tokens, too
  }
  /// The same for partial gradients of the caller's own, [materialized, elements] per tensor, of
  /// the type of partial gradients.
  /// @pre their memory, not the views of it, lives and stays as it is until `step`
  /// @throws argument_error if they have another shape or type; transport errors of earlier work
  template <expert_memory Partials>
  void reduce(layer_id which, Partials const& own) {
    at(which).state.require_placement();
    require_type<element_of<Partials const>>("reduce", setting_.types.partial);
    reduce_own(which, detail::tensor_list{own});
  }

  /// Takes in the real loads of a layer and micro-batch, for the next placements.
  /// @param device_loads rows of every rank, if the metrics are to tell how full they were
  /// @throws argument_error on another number of experts
  void record(layer_id which, std::span<std::uint64_t const> loads,
              std::span<std::uint64_t const> device_loads = {}) {
    auto const experts = static_cast<std::size_t>(layouts_.experts_per_layer());
    detail::require(loads.size() == experts, "materializer: loads of ", loads.size(),
                    " experts; expected ", experts);
    at(which).record(loads, device_loads);
  }

  /// Closes the iteration: all gradients are there, and no peer reads this rank's weights any more,
  /// so the optimizer may write them.
  /// @throws argument_error if a layer is still acquired or has partials that are not reduced;
  ///         transport errors
  iteration_metrics step() {
    for (auto const& layer : layers_) layer.state.require_closed();
    partials_.finish_all();
    for (auto& layer : layers_) {
      replicas_.drop(layer);
      if (!layer.recorded_devices.empty()) meter_.balance(layer.recorded_devices);
      layer.end_iteration();
    }
    ++iterations_;
    return meter_.close(replicas_.pool(), partials_.pool());
  }

  /// The same around the optimizer: closes the iteration, calls update(metrics), and moves experts
  /// to other owners if that is due and the sharding solver of the policy wants it.
  /// @param moved as `reshard` takes it
  template <expert_memory Moved>
  iteration_metrics step(detail::function_ref<void(iteration_metrics const&)> update,
                         Moved&& moved) {
    auto metrics = step();
    update(metrics);
    if (!is_reshard_due() || !policy_.sharding.moves_experts()) return metrics;
    auto loads = std::vector<expert_loads>{};
    for (auto const& layer : layers_) loads.push_back(layer.expected.predict());
    auto const next = policy_.sharding(layouts_, loads, setting_.cluster);
    ++(next.has_value() ? metrics.reshardings_accepted : metrics.reshardings_rejected);
    if (next.has_value()) reshard(*next, moved);
    return metrics;
  }

  /// Whether it is time to choose other owners: between `step` and the next iteration.
  [[nodiscard]] bool is_reshard_due() const {
    return options_.reshard_every > 0 && iterations_ > 0 &&
           iterations_ % options_.reshard_every == 0;
  }
  /// Experts go to other owners, with all that belongs to them.
  /// @param next the layouts of all layers: of a sharding solver, from the expected loads
  /// @param moved what an owner has of its experts: bytes_of(weights, moments...)
  /// @pre the iteration is closed, and the optimizer has finished with it
  /// @throws argument_error as reshard, and if an arena is too small; transport errors
  template <expert_memory Moved>
  void reshard(layer_stack<table_layout> const& next, Moved&& moved) {
    static_assert(!is_read_only<Moved>, "what is moved is to be written");
    move_experts(next, detail::tensor_list{moved});
  }

 private:
  /// What a gather does that finds no room: it hopes for later, or takes what there is.
  enum class shortage { waits, ends };

  materializer(detail::work_queue const& queue, expert_shards shards, materializer_policy policy,
               materializer_options const& options);

  [[nodiscard]] detail::materialized_layer const& at(layer_id which) const {
    detail::require(which.value() >= 0 && which.value() < layers(), "materializer: layer ", which,
                    "; expected 0 to ", layers() - 1);
    return layers_[which.index()];
  }
  [[nodiscard]] detail::materialized_layer& at(layer_id which) {
    return const_cast<detail::materialized_layer&>(std::as_const(*this).at(which));
  }
  template <element T>
  static void require_type(char const* call, element_kind expected) {
    detail::require(kind_of<T> == expected, "materializer: ", call, " of type ",
                    name_of(kind_of<T>), "; expected ", name_of(expected));
  }

  bool gather(layer_id which, shortage when);
  bool place(detail::materialized_layer& layer, shortage when);
  std::span<detail::tensor_view const> room_for_partials(layer_id which);
  void begin_reduction(layer_id which, detail::tensor_list from);
  void reduce_own(layer_id which, detail::tensor_list own);
  void move_experts(layer_stack<table_layout> const& next, detail::tensor_list moved);

  detail::work_queue queue_;
  expert_shards shards_;
  layer_stack<table_layout> layouts_;
  materializer_policy policy_;
  materializer_options options_;
  detail::layer_setting setting_;
  detail::iteration_meter meter_;
  detail::gathered_replicas replicas_;
  detail::partial_sums partials_;
  std::deque<detail::materialized_layer> layers_;
  scratch_memory scratch_;
  int iterations_ = 0;
};

}  // namespace fssdp

#include "fssdp/runtime/materializer_inl.hpp"
