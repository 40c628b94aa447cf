// SPDX-License-Identifier: Apache-2.0
/// The calls of a materializer, passed on to its core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/inline.hpp"
#include "fssdp/runtime/materializer.hpp"
#include "fssdp/runtime/materializer_core.hpp"

namespace fssdp {

FSSDP_INLINE materializer::materializer(detail::work_queue const& queue, expert_shards shards,
                                        materializer_policy policy,
                                        materializer_options const& options)
    : core_{std::make_unique<detail::materializer_core>(queue, std::move(shards), std::move(policy),
                                                        options)} {}
FSSDP_INLINE materializer::materializer(materializer&&) noexcept = default;
FSSDP_INLINE materializer& materializer::operator=(materializer&&) noexcept = default;
FSSDP_INLINE materializer::~materializer() = default;

FSSDP_INLINE int materializer::layers() const { return layouts().layers(); }

FSSDP_INLINE layer_stack<table_layout> const& materializer::layouts() const {
  return core_->layouts();
}

FSSDP_INLINE expert_loads materializer::expected_loads(layer_id which) const {
  return core_->at(which).expected.predict();
}

FSSDP_INLINE any_load_predictor& materializer::predictor(layer_id which) {
  return core_->at(which).expected;
}

FSSDP_INLINE placement const& materializer::where(layer_id which) const {
  core_->at(which).state.require_placement();
  return *core_->at(which).where;
}

FSSDP_INLINE transfer_plan const& materializer::plan(layer_id which) { return core_->plan(which); }

FSSDP_INLINE void materializer::prefetch(layer_id which) { core_->prefetch(which); }

FSSDP_INLINE void materializer::acquire(layer_id which, int micro_batch, training_pass way) {
  core_->acquire(which, micro_batch, way);
}

FSSDP_INLINE std::vector<any_expert> materializer::any_experts(layer_id which) const {
  auto const& layer = core_->at(which);
  layer.state.require_acquired();
  auto experts = std::vector<any_expert>{};
  auto const tensors = layer.views();
  auto const per_expert = layer.held().empty() ? 0 : tensors.size() / layer.held().size();
  for (std::size_t i = 0; i < layer.held().size(); ++i) {
    experts.push_back({layer.held()[i], {}});
    for (std::size_t k = 0; k < per_expert; ++k)
      experts.back().tensors.push_back(tensors[i * per_expert + k].any());
  }
  return experts;
}

FSSDP_INLINE void materializer::release(layer_id which, int micro_batch) {
  core_->release(which, micro_batch);
}

FSSDP_INLINE bool materializer::calibrate(layer_id which, token_counts const& counts) {
  return core_->calibrate(which, counts);
}

FSSDP_INLINE std::vector<any_tensor> materializer::any_partials(layer_id which) {
  auto views = std::vector<any_tensor>{};
  for (auto const& tensor : core_->room_for_partials(which)) views.push_back(tensor.any());
  return views;
}

FSSDP_INLINE void materializer::reduce(layer_id which) { core_->reduce(which); }

FSSDP_INLINE void materializer::record(layer_id which, std::span<std::uint64_t const> loads,
                                       std::span<std::uint64_t const> device_loads) {
  core_->record(which, loads, device_loads);
}

FSSDP_INLINE iteration_metrics materializer::step() { return core_->step(); }

FSSDP_INLINE bool materializer::is_reshard_due() const { return core_->is_reshard_due(); }

FSSDP_INLINE std::span<tensor_types const> materializer::tensors() const {
  return core_->tensors();
}
FSSDP_INLINE std::span<expert_id const> materializer::held(layer_id which) const {
  return core_->at(which).held();
}
FSSDP_INLINE std::vector<detail::tensor_view> materializer::acquired(layer_id which) const {
  auto const& layer = core_->at(which);
  layer.state.require_acquired();
  return layer.views();
}
FSSDP_INLINE std::span<detail::tensor_view const> materializer::in_one_piece(layer_id which) const {
  auto const& layer = core_->at(which);
  layer.state.require_acquired();
  detail::require(core_->options().in_one_piece,
                  "materializer: experts_in_one_piece; expected the option in_one_piece");
  return layer.replicas.tensors;
}
FSSDP_INLINE std::span<detail::tensor_view const> materializer::room_for_partials(layer_id which) {
  return core_->room_for_partials(which);
}
FSSDP_INLINE void materializer::reduce_own(layer_id which, detail::tensor_list own) {
  core_->reduce_own(which, std::move(own));
}
FSSDP_INLINE iteration_metrics materializer::step_and_move(
    detail::function_ref<void(iteration_metrics const&)> update, detail::tensor_list moved) {
  return core_->step(update, std::move(moved));
}
FSSDP_INLINE void materializer::move_experts(layer_stack<table_layout> const& next,
                                             detail::tensor_list moved) {
  core_->reshard(next, std::move(moved));
}

}  // namespace fssdp
