// SPDX-License-Identifier: Apache-2.0
/// What a materializer does.
#pragma once

#include "fssdp/runtime/materializer.hpp"

namespace fssdp {

namespace detail {

/// The communicator's queue, if shards and options fit it.
/// @throws argument_error if not
[[nodiscard]] inline work_queue const& fitting(work_queue const& queue, expert_shards const& shards,
                                               materializer_options const& options) {
  require(queue.size() == shards.layouts().ranks(), "materializer: ", queue.size(),
          " ranks; the layouts are for ", shards.layouts().ranks());
  check_options(options, queue.in_host_memory());
  shards.check(queue.rank());
  return queue;
}

[[nodiscard]] inline layer_setting setting_for(work_queue const& queue, expert_shards const& shards,
                                               materializer_policy const& policy,
                                               materializer_options const& options) {
  auto const types = shards.types(options.replica_type, options.partial_type);
  auto const& sizes = shards.elements();
  return {
      .rank = queue.rank(),
      .elements = {sizes.begin(), sizes.end()},
      .types = types,
      .gather_coding = policy.gather_coding,
      .reduce_coding = policy.reduce_coding,
      .in_place = !types.to_replicas.changes_type() && !policy.gather_coding.codes() &&
                  !options.in_one_piece,
      .cluster = topology_or_one_node(options.cluster, shards.layouts().ranks()),
      .schedule = options.schedule,
      .chunk_bytes = chunk_elements(sizes, shards.layouts().slices()) * types.to_replicas.to_bytes,
      .device_scratch = options.device_scratch,
      .trace = options.trace};
}

}  // namespace detail

inline materializer::materializer(detail::work_queue const& queue, expert_shards shards,
                                  materializer_policy policy, materializer_options const& options)
    : queue_{detail::fitting(queue, shards, options)},
      shards_{std::move(shards)},
      layouts_{shards_.layouts()},
      policy_{std::move(policy)},
      options_{options},
      setting_{detail::setting_for(queue_, shards_, policy_, options_)},
      meter_{queue_, options.trace},
      replicas_{queue_,
                meter_,
                {options.replica_slots, setting_.elements, setting_.types.to_replicas.to_bytes,
                 options.memory}},
      partials_{queue_,
                meter_,
                {options.partial_slots, setting_.elements,
                 setting_.types.to_gradients.partial_bytes, options.memory}} {
  auto predictor = policy_.predictor;
  predictor.resize(layouts_.experts_per_layer());
  for (auto const layer : first_n<layer_id>(layers()))
    layers_.emplace_back(layer, setting_, scratch_, predictor).look_at(layouts_, shards_);
}

/// Begins to gather.
/// @return false if it has been put off
inline bool materializer::gather(layer_id which, shortage when) {
  auto& layer = at(which);
  if (layer.state.placement() == placement_state::open && !place(layer, when)) return false;
  meter_.expose([&] { layer.begin_plan(queue_); });
  auto const count = most_slots_used(*layer.where, layer.layout(), setting_.use());
  auto const has_room = replicas_.gather(layer, count);
  detail::require(has_room || when == shortage::waits, "materializer: the pool has ",
                  replicas_.pool().longest(), " replica slots in a row; layer ", which, " needs ",
                  count,
                  " again: expected other layers to be released before, or more replica_slots");
  return has_room;
}

/// Chooses the placement of this iteration: what the solver wants, as far as there is room.
inline bool materializer::place(detail::materialized_layer& layer, shortage when) {
  auto const loads = layer.expected.predict();
  auto where = policy_.placement(loads, layer.layout());
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

inline std::span<detail::tensor_view const> materializer::room_for_partials(layer_id which) {
  auto& layer = at(which);
  layer.state.require_placement();
  return partials_.of(layer, most_slots_used(*layer.where, layer.layout(), slot_use::materialized));
}

inline void materializer::begin_reduction(layer_id which, detail::tensor_list from) {
  auto& layer = at(which);
  partials_.reduce(layer, std::move(from));
  if (!layer.state.in_use()) replicas_.drop(layer);
}

inline void materializer::reduce_own(layer_id which, detail::tensor_list own) {
  auto& layer = at(which);
  detail::check_partials("materializer", {"partials", own.all()}, setting_.elements,
                         layer.held().size());
  partials_.finish(layer);
  layer.state.require_no_partials();
  begin_reduction(which, std::move(own));
}

inline void materializer::move_experts(layer_stack<table_layout> const& next,
                                       detail::tensor_list moved) {
  for (auto const& arena : {shards_.weights(), shards_.gradients()})  // before anything moves
    for (auto const& tensor : arena)
      detail::require(tensor.slots >= next.slots(queue_.rank()), "materializer: an arena of ",
                      tensor.slots, " slots; expected ", next.slots(queue_.rank()),
                      " or more on rank ", queue_.rank());
  auto const call =
      detail::reshard_call{reshard_plan{layouts_, next}, std::move(moved), reshard_options{}};
  call.check(queue_.rank(), queue_.size());
  auto over = stream_event{};
  detail::on_sound_stream(queue_, [&] {
    queue_.submit(
        [](void* of, communicator_ref const& comm) {
          (*static_cast<detail::reshard_call const*>(of))(comm);
        },
        const_cast<detail::reshard_call*>(&call), over.next());
  });
  queue_.synchronize();
  layouts_ = next;
  for (auto& layer : layers_) layer.look_at(layouts_, shards_);
}

}  // namespace fssdp
