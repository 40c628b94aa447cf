// SPDX-License-Identifier: Apache-2.0
/// The iteration: gathers layers before they are needed and reduces them behind what comes next.
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
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/runtime/calibration.hpp"
#include "fssdp/runtime/fitting_lane.hpp"
#include "fssdp/runtime/gathered_replicas.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/iteration_metrics.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/runtime/materializer_options.hpp"
#include "fssdp/runtime/next_layouts.hpp"
#include "fssdp/runtime/partial_sums.hpp"
#include "fssdp/runtime/wire_coding.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "fssdp/solver/placement_solver.hpp"

namespace fssdp {

/// The experts of all MoE layers of a model during training. Between steps they are sharded; during
/// one, a layer's replicas are there from `prefetch` or `acquire` to `release`, its partial
/// gradients from `partials` to `reduce`.
///
///     for each layer:              layers.acquire(l)   forward    layers.release(l)
///     for each layer, backwards:   layers.acquire(l, 0, training_pass::backward)
///                                  backward into layers.partials(l)
///                                  layers.release(l)   layers.reduce(l)
///     layers.step();               the optimizer, on what this rank owns
///
/// Every rank makes the same calls in the same order. On a communicator that is bound to a stream,
/// gathers and reductions run behind the caller's back; on another one they run in the call. The
/// bits are the same. Between devices the lane is a side_lane (beside): what would wait is then the
/// caller's stream, not the caller.
///
/// A layer has one placement per iteration: what the solver says about the predicted loads, as far
/// as the pool has room. Nothing is allocated for parameters after construction.
/// (Paper, sections on materialization, re-materialization and calibration)
template <communicator Comm, class Solver, class Weight, class Gradient = Weight,
          class Replica = Weight, shard_layout Layout = table_layout, class Coding = wire_coding<>,
          load_predictor Predictor = load_window>
requires placement_solver<Solver, Layout>
class materializer {
 public:
  using held_type = materialized_experts<Replica const>;

  /// @param lane carries gathers and reductions, nothing else
  /// @param elements the size of each tensor of one whole expert
  /// @param weights, gradients the arenas of this rank, [slots, slice_elements] per tensor, with
  ///        as many slots as `layouts` needs: the owner's parameters and reduced gradients
  /// @param coding what is coded on the wire; where parameters are, owners compute with decoded
  ///        copies, too
  /// @param predictor of the loads of every layer, for any number of experts
  /// @pre the lane, the arenas and the sink of a trace outlive it
  /// @throws argument_error if arenas, layouts or pools do not fit: before anything is allocated
  materializer(Comm& lane, layer_stack<Layout> layouts, std::span<std::size_t const> elements,
               std::span<expert_tensor<Weight> const> weights,
               std::span<expert_tensor<Gradient> const> gradients, Solver solve,
               materializer_options const& options, Coding const& coding = {},
               Predictor predictor = Predictor{1})
      : lane_{detail::fitting_lane(lane, layouts, elements, weights, gradients, options)},
        layouts_{std::move(layouts)},
        elements_(elements.begin(), elements.end()),
        weights_(weights.begin(), weights.end()),
        gradients_(gradients.begin(), gradients.end()),
        solve_{std::move(solve)},
        options_{options},
        coding_{coding},
        machine_{topology_or_one_node(options.cluster, layouts_.ranks())},
        meter_{options.trace},
        replicas_{lane, meter_, options.replica_slots, elements, options.memory},
        partials_{lane, meter_, options.partial_slots, elements, options.memory} {
    predictor.resize(layouts_.experts_per_layer());
    for (auto const layer : all_layers()) {
      auto& made = layers_.emplace_back(layer, predictor, options.trace);
      made.look_at(layouts_, lane.rank(), weights_, gradients_);
    }
  }
  materializer(materializer const&) = delete;
  materializer& operator=(materializer const&) = delete;
  /// Waits for the work that uses its memory.
  ~materializer() {
    for (auto& layer : layers_) layer.settle();
    meter_.settle(lane_);
  }

  [[nodiscard]] int layers() const { return layouts_.layers(); }
  [[nodiscard]] layer_stack<Layout> const& layouts() const { return layouts_; }
  /// The loads that the next iteration is planned with.
  [[nodiscard]] expert_loads expected_loads(layer_id which) const {
    auto const loads = std::span<std::uint64_t const>{at(which).expected.predict()};
    return {loads.begin(), loads.end()};
  }
  /// What expects the loads of a layer: between iterations its memory can be kept, and recalled.
  [[nodiscard]] Predictor& predictor(layer_id which) { return at(which).expected; }
  /// Who holds the experts of a layer in this iteration.
  /// @pre the layer has been prefetched or acquired in it
  [[nodiscard]] placement const& where(layer_id which) const {
    at(which).require_placement();
    return *at(which).where;
  }
  /// How they get it. Waits until it is planned.
  /// @pre likewise
  [[nodiscard]] transfer_plan const& plan(layer_id which) {
    at(which).require_placement();
    meter_.wait(lane_, at(which).planned);
    return *at(which).plan;
  }

  /// Begins to gather a layer: chooses its placement, and has it planned and gathered on the lane.
  /// Nothing happens if it is there; or if there is no room now and will be: then it is gathered
  /// when it is acquired.
  /// @throws argument_error if there is no such layer; transport errors of earlier work
  void prefetch(layer_id which) {
    auto& layer = at(which);
    if (!layer.replicas.range.has_value() && !gather(which, shortage::waits))
      ++meter_.metrics.prefetches_put_off;
  }

  /// Waits until a layer is there, and has the layers behind it gathered. The experts keep their
  /// addresses until all micro-batches that have acquired the layer have released it, or until
  /// `calibrate`.
  /// @return what this rank holds, ascending
  /// @throws argument_error if this micro-batch has it already, or the pool has no room for a
  ///         placement that this iteration has begun with; transport errors
  held_type const& acquire(layer_id which, int micro_batch = 0,
                           training_pass way = training_pass::forward) {
    auto& layer = at(which);
    detail::require(!std::ranges::count(layer.users, micro_batch), "materializer: micro-batch ",
                    micro_batch, " acquires layer ", which, " again; expected release before");
    if (!layer.replicas.range.has_value()) (void)gather(which, shortage::ends);
    auto const is_forward = way == training_pass::forward;
    auto const behind = is_forward ? layers() - 1 - which.value() : which.value();
    for (int step = 1; step <= std::min(options_.ahead, behind); ++step)
      prefetch(layer_id{which.value() + (is_forward ? step : -step)});
    replicas_.finish(layer);
    if (!layer.experts.has_value()) layer.show(layouts_.layer(which), lane_.rank());
    layer.users.push_back(micro_batch);
    return *layer.experts;
  }

  /// Ends what `acquire` began.
  /// @throws argument_error if this micro-batch has not acquired the layer
  void release(layer_id which, int micro_batch = 0) {
    auto& layer = at(which);
    auto const user = std::ranges::find(layer.users, micro_batch);
    detail::require(user != layer.users.end(), "materializer: micro-batch ", micro_batch,
                    " releases layer ", which, "; expected one that has acquired it");
    layer.users.erase(user);
    layer.was_released = true;
    if (layer.users.empty() && options_.replicas == retention::rematerialize) replicas_.drop(layer);
  }

  /// After the gate: plans with the real loads and gathers what is missing, if that takes less time
  /// than it saves. Replicas that are there stay; coded ones that more ranks get come anew to all.
  /// @param counts tokens of every rank for every expert, equal on all ranks
  /// @return what this rank holds now
  /// @pre one micro-batch has acquired the layer, the first of this iteration
  /// @throws argument_error if not; transport errors
  /// (Paper, calibration)
  held_type const& calibrate(layer_id which, token_counts const& counts) {
    auto& layer = at(which);
    auto const is_first = !layer.was_released && !layer.partial_range && !layer.is_reducing &&
                          !layer.added.range.has_value();
    detail::require(layer.users.size() == 1 && is_first, "materializer: layer ", which,
                    " is calibrated with ", layer.users.size(),
                    " micro-batches in it; expected one, the first of the iteration");
    auto const& layout = layouts_.layer(which);
    auto found = fssdp::calibrate(*layer.where, solve_(counts.loads(), layout), layout, counts,
                                  {.slots = replicas_.pool().longest(),
                                   .use = use,
                                   .to = layer_type::added_to,
                                   .chunk_bytes = chunk_bytes(),
                                   .seconds_per_row = options_.seconds_per_row,
                                   .cluster = machine_,
                                   .routing = options_.routing});
    if (!found.has_value()) return *layer.experts;
    if (found->saved_seconds <= found->gather_seconds) {
      ++meter_.metrics.calibrations_rejected;
      return *layer.experts;
    }
    ++meter_.metrics.calibrations_accepted;
    replicas_.add(layer, std::move(found->plan), found->slots, setting());
    layer.place(std::move(found->where), lane_.rank());
    begin_plan(layer, layout);
    layer.show(layout, lane_.rank());
    return *layer.experts;
  }

  /// Where the partial gradients of a layer are summed up: [materialized, elements] per tensor, zero at
  /// first. Waits for older reductions if there is no room.
  /// @throws argument_error if there will be none; transport errors
  [[nodiscard]] std::span<expert_tensor<Replica> const> partials(layer_id which) {
    auto& layer = at(which);
    layer.require_placement();
    return partials_.of(
        layer, most_slots_used(*layer.where, layouts_.layer(which), slot_use::materialized));
  }

  /// Begins to sum the partial gradients of a layer at their owners: after its last micro-batch. A
  /// second reduction in one iteration adds to the first. Replicas that nobody uses are dropped.
  /// @throws argument_error as partials; transport errors of earlier work
  void reduce(layer_id which) {
    begin_reduction(which, partials(which));  // of a rank that had no token, too
  }
  /// The same for partial gradients of the caller's own, [materialized, elements] per tensor.
  /// @pre their memory, not the views of it, lives and stays as it is until `step`
  /// @throws argument_error if they have another shape; transport errors of earlier work
  template <expert_memory Partials>
  void reduce(layer_id which, Partials const& own) {
    auto& layer = at(which);
    layer.require_placement();
    auto const partials = tensors_of(own);
    detail::check_partials("materializer", {"partials", detail::tensor_list{own}.all()}, elements_,
                           layer.held.size());
    partials_.finish(layer);
    layer.require_no_partials();
    begin_reduction(which, std::vector(partials.begin(), partials.end()));
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
    for (auto const& layer : layers_) layer.require_closed();
    partials_.finish_all();
    for (auto& layer : layers_) {
      replicas_.drop(layer);
      if (!layer.recorded_devices.empty()) meter_.balance(layer.recorded_devices);
      layer.end_iteration();
    }
    ++iterations_;
    auto& metrics = meter_.metrics;
    metrics.replica_slots_peak = replicas_.pool().peak();
    metrics.partial_slots_peak = partials_.pool().peak();
    metrics.replica_slots_now = replicas_.pool().used();
    metrics.partial_slots_now = partials_.pool().used();
    replicas_.pool().forget_peak();
    partials_.pool().forget_peak();
    return meter_.close();
  }

  /// The same around the optimizer: closes the iteration, calls update(metrics), and deals the
  /// experts out anew if that is due and the solver does not say that all is to stay.
  /// @param sharding a sharding_solver or resharding_solver, for the expected loads of all layers
  /// @param moved as `reshard` takes it
  template <class Update, class Sharding, class Moved>
  iteration_metrics step(Update update, Sharding const& sharding, Moved const& moved) {
    auto metrics = step();
    update(std::as_const(metrics));
    if (!is_reshard_due()) return metrics;
    auto loads = std::vector<expert_loads>{};
    for (auto const layer : all_layers()) loads.push_back(expected_loads(layer));
    auto const next =
        detail::next_layouts(layouts_, std::span{std::as_const(loads)}, machine_, sharding);
    ++(next.has_value() ? metrics.reshardings_accepted : metrics.reshardings_rejected);
    if (next.has_value()) reshard(*next, moved);
    return metrics;
  }

  /// Whether it is time to choose the owners anew: between `step` and the next iteration.
  [[nodiscard]] bool is_reshard_due() const {
    return options_.reshard_every > 0 && iterations_ > 0 &&
           iterations_ % options_.reshard_every == 0;
  }
  /// Experts go to other owners, with all that belongs to them.
  /// @param next the layouts of all layers: of a sharding solver, from the expected loads
  /// @param moved what an owner has of its experts: bytes_of(weights, moments...)
  /// @pre the iteration is closed, and the optimizer is through with it
  /// @throws argument_error as reshard, and if an arena is too small; transport errors
  template <class Moved>
  void reshard(layer_stack<Layout> const& next, Moved const& moved) {
    (void)layer_shard(next, layer_id{0}, lane_.rank(), weights_);  // refuses before anything moves
    (void)layer_shard(next, layer_id{0}, lane_.rank(), gradients_);
    auto const plan = reshard_plan{layouts_, next};
    detail::on_sound_lane(lane_, [&] { fssdp::reshard(lane_, plan, moved); });
    synchronize(lane_);
    layouts_ = next;
    for (auto& layer : layers_) layer.look_at(layouts_, lane_.rank(), weights_, gradients_);
  }

 private:
  using layer_type =
      detail::materialized_layer<Weight, Gradient, Replica, Layout, Coding, Predictor>;
  /// What a gather does that finds no room: it hopes for later, or takes what there is.
  enum class shortage { waits, ends };
  static constexpr auto use = layer_type::in_place ? slot_use::remote : slot_use::materialized;

  [[nodiscard]] index_range<layer_id> all_layers() const { return first_n<layer_id>(layers()); }
  [[nodiscard]] layer_type const& at(layer_id which) const {
    detail::require(which.value() >= 0 && which.value() < layers(), "materializer: layer ", which,
                    "; expected 0 to ", layers() - 1);
    return layers_[which.index()];
  }
  [[nodiscard]] layer_type& at(layer_id which) {
    return const_cast<layer_type&>(std::as_const(*this).at(which));
  }
  [[nodiscard]] std::size_t chunk_bytes() const {
    return chunk_elements(elements_, layouts_.slices()) * sizeof(Replica);
  }
  [[nodiscard]] typename layer_type::work_setting setting() {
    return {elements_, &coding_, &scratch_, options_.device_scratch};
  }
  void begin_plan(layer_type& layer, Layout const& layout) {
    auto const make = [this, &layer, &layout] {
      auto plan = make_plan(layout, *layer.where, machine_);
      if (!options_.schedule.has_value()) return plan;
      return schedule(plan, chunk_bytes(), *options_.schedule);
    };
    meter_.expose(lane_, [&] { layer.begin_plan(lane_, make); });
  }

  /// Begins to gather.
  /// @return false if it has been put off
  bool gather(layer_id which, shortage when) {
    auto& layer = at(which);
    auto const& layout = layouts_.layer(which);
    if (!layer.is_placed && !place(layer, layout, when)) return false;
    begin_plan(layer, layout);
    auto const count = most_slots_used(*layer.where, layout, use);
    auto const has_room = replicas_.gather(layer, layout, count, setting());
    detail::require(has_room || when == shortage::waits, "materializer: the pool has ",
                    replicas_.pool().longest(), " replica slots in a row; layer ", which, " needs ",
                    count,
                    " again: expected other layers to be released before, or more replica_slots");
    return has_room;
  }

  /// Chooses the placement of this iteration: what the solver wants, as far as there is room.
  bool place(layer_type& layer, Layout const& layout, shortage when) {
    auto const loads = std::span<std::uint64_t const>{layer.expected.predict()};
    auto where = solve_(loads, layout);
    auto const room = replicas_.pool().longest();
    if (most_slots_used(where, layout, use) > room) {
      auto const is_temporary = options_.replicas == retention::rematerialize;
      if (when == shortage::waits && is_temporary && replicas_.pool().used() > 0) return false;
      where = fit_slots(where, layout, loads, static_cast<int>(room), use);
      ++meter_.metrics.placements_shrunk;
    }
    layer.place(std::move(where), lane_.rank());
    return true;
  }

  template <class Partials>
  void begin_reduction(layer_id which, Partials from) {
    auto& layer = at(which);
    partials_.reduce(layer, from, setting());
    if (layer.users.empty()) replicas_.drop(layer);
  }

  Comm& lane_;
  layer_stack<Layout> layouts_;
  std::vector<std::size_t> elements_;
  std::vector<expert_tensor<Weight>> weights_;
  std::vector<expert_tensor<Gradient>> gradients_;
  Solver solve_;
  materializer_options options_;
  Coding coding_;
  topology machine_;
  detail::iteration_meter meter_;
  detail::gathered_replicas<Comm, layer_type, Replica> replicas_;
  detail::partial_sums<Comm, layer_type, Replica> partials_;
  std::deque<layer_type> layers_;
  scratch_memory scratch_;
  int iterations_ = 0;
};

}  // namespace fssdp
