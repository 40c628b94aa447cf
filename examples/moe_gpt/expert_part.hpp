// SPDX-License-Identifier: Apache-2.0
/// The experts of one layer as FSSDP keeps them: sharded between steps, materialized during one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "expert.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/plan/held.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "initialise.hpp"
#include "model_shape.hpp"
#include "optimizer_shard.hpp"
#include "wire_buffer.hpp"

namespace moe_gpt {

template <class Real, class Wire>
class expert_part {
 public:
  expert_part(model_shape const& shape, std::uint64_t seed, std::size_t layer, fssdp::rank_id rank,
              fssdp::topology const& machine)
      : elements_{expert_elements(shape.d_model, shape.d_ff())},
        machine_{machine},
        window_{static_cast<int>(shape.experts)},
        shard_{fssdp::block_layout{
                   {.experts = static_cast<int>(shape.experts), .ranks = machine.ranks()}},
               rank, elements_},
        own_{same_type ? 0 : shard_.weights().slots(), elements_},
        replicas_{0, elements_},
        partials_{0, elements_} {
    for (auto const [expert, slice] : shard_.layout().owned(rank)) {
      auto const slot = static_cast<std::size_t>(shard_.layout().slot(expert));
      initialise_expert(shape, seed, layer, expert.index(),
                        pointers<Real>(shard_.weights().tensors(), slot));
    }
  }

  [[nodiscard]] optimizer_shard<Real>& shard() { return shard_; }
  [[nodiscard]] fssdp::topology const& machine() const { return machine_; }
  [[nodiscard]] fssdp::placement const& where() const { return plan_->where(); }
  /// What this rank's replicas of the last gather take.
  [[nodiscard]] std::uint64_t replica_bytes() const {
    auto elements = std::size_t{0};
    for (auto const n : elements_) elements += n;
    return plan_->foreign(shard_.rank()).size() * elements * sizeof(Wire);
  }

  /// Predicted loads -> placement -> plan -> replicas.
  template <fssdp::communicator Comm, class Solver>
  void gather(Comm& comm, Solver const& solve) {
    auto const where = solve(window_.predict(), shard_.layout());
    if (!plan_.has_value() || plan_->where() != where)
      plan_ = fssdp::make_plan(shard_.layout(), where, machine_);
    auto const rank = shard_.rank();
    replicas_.resize(plan_->foreign(rank).size());
    partials_.resize(plan_->held(rank).size());
    if constexpr (same_type) {
      fssdp::sparse_all_gather(comm, *plan_, shard_.weights(), replicas_.incoming());
      held_.emplace(fssdp::held(*plan_, rank, shard_.weights(), replicas_.values()));
    } else {
      convert(shard_.weights(), own_.values());
      fssdp::sparse_all_gather(comm, *plan_, own_.outgoing(), replicas_.incoming());
      own_.arrived();  // the owner computes with what the others got
      replicas_.arrived();
      held_.emplace(fssdp::held(*plan_, rank, own_.values(), replicas_.values()));
    }
  }
  /// Partial gradients of all that hold an expert to its owner, summed.
  template <fssdp::communicator Comm>
  void reduce(Comm& comm) {
    fssdp::sparse_reduce_scatter(comm, *plan_, partials_.outgoing(), shard_.gradients(),
                                 {.scratch = &scratch_});
  }
  /// Takes in the loads of this iteration, for the next prediction.
  void record(fssdp::expert_loads const& loads) { window_.push(loads); }

  /// The parameters of the i-th expert that this rank holds, after `gather`.
  [[nodiscard]] expert_tensors<Real const> weights(std::size_t i) const {
    auto const tensors = (*held_)[i].tensors;
    return {tensors[0].data(), tensors[1].data(), tensors[2].data(), tensors[3].data()};
  }
  /// Where this rank's gradients of the i-th expert are summed up, until `reduce`.
  [[nodiscard]] expert_tensors<Real> gradients(std::size_t i) {
    return pointers<Real>(partials_.values().tensors(), i);
  }
  void clear_gradients() {
    for (auto const& tensor : partials_.values().tensors())
      std::fill_n(tensor.data, tensor.slots * tensor.stride, Real{0});
  }

  void step(adamw_options const& options, int step, double gradient_scale) {
    shard_.step(options, step, gradient_scale, [this](fssdp::expert_id, std::size_t tensor) {
      auto const is_matrix = tensor == 0 || tensor == 2;
      return std::array{decay_range{0, elements_[tensor], is_matrix ? decay::on : decay::off}};
    });
  }

 private:
  static constexpr auto same_type = std::is_same_v<Real, Wire>;

  template <class T>
  static expert_tensors<T> pointers(std::span<fssdp::expert_tensor<T> const> tensors,
                                    std::size_t slot) {
    return {tensors[0][slot].data(), tensors[1][slot].data(), tensors[2][slot].data(),
            tensors[3][slot].data()};
  }

  std::array<std::size_t, 4> elements_;
  fssdp::topology machine_;
  fssdp::load_window window_;
  optimizer_shard<Real> shard_;
  std::optional<fssdp::transfer_plan> plan_;
  wire_buffer<Real, Wire> own_;       // [owned], empty where the shard itself is used
  wire_buffer<Real, Wire> replicas_;  // [foreign]
  wire_buffer<Real, Wire> partials_;  // [held]
  std::optional<fssdp::held_experts<Real const>> held_;
  fssdp::scratch_memory scratch_;
};

}  // namespace moe_gpt
