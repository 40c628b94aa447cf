// SPDX-License-Identifier: Apache-2.0
/// The experts of one layer as FSSDP keeps them: sharded between steps, materialized during one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "expert.hpp"
#include "expert_arena.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/plan/held.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "model_shape.hpp"
#include "wire_buffer.hpp"

namespace moe_gpt {

template <class Real, class Wire>
class expert_part {
 public:
  expert_part(model_shape const& shape, fssdp::rank_id rank, fssdp::topology const& machine,
              layer_shard_view<Real> shard)
      : rank_{rank},
        elements_{expert_elements(shape.d_model, shape.d_ff())},
        machine_{machine},
        window_{static_cast<int>(shape.experts)},
        shard_{std::move(shard)},
        replicas_{0, elements_},
        partials_{0, elements_} {}

  /// Goes on with another part of the arena, after a reshard.
  void move_to(layer_shard_view<Real> shard) {
    shard_ = std::move(shard);
    plan_.reset();
    held_.reset();
  }

  [[nodiscard]] fssdp::table_layout const& layout() const { return shard_.layout; }
  [[nodiscard]] fssdp::topology const& machine() const { return machine_; }
  [[nodiscard]] fssdp::placement const& where() const { return plan_->where(); }
  /// What is expected of the next iteration.
  [[nodiscard]] fssdp::expert_loads const& expected_loads() const { return window_.predict(); }
  /// The bytes of this rank's replicas of the last gather, as they travel.
  [[nodiscard]] std::uint64_t replica_bytes() const {
    auto elements = std::size_t{0};
    for (auto const n : elements_) elements += n;
    return plan_->foreign(rank_).size() * elements * sizeof(Wire);
  }

  /// Predicted loads -> placement -> plan -> replicas.
  template <fssdp::communicator Comm, class Solver>
  void gather(Comm& comm, Solver const& solve) {
    auto const where = solve(window_.predict(), shard_.layout);
    if (!plan_.has_value() || plan_->where() != where)
      plan_ = fssdp::make_plan(shard_.layout, where, machine_);
    partials_.resize(plan_->held(rank_).size());
    // With another type on the wire the owner, too, computes with what the others get.
    replicas_.resize(same_type ? plan_->foreign(rank_).size() : plan_->held(rank_).size());
    fssdp::sparse_all_gather(comm, *plan_, shard_.weights, replicas_.incoming());
    replicas_.arrived();
    if constexpr (same_type)
      held_.emplace(fssdp::held(*plan_, rank_, shard_.weights, replicas_.values()));
    else
      held_.emplace(fssdp::held(*plan_, rank_, replicas_.values()));
  }
  /// Partial gradients of all that hold an expert to its owners, summed.
  template <fssdp::communicator Comm>
  void reduce(Comm& comm) {
    fssdp::sparse_reduce_scatter(comm, *plan_, partials_.outgoing(wire_scale<Wire>),
                                 shard_.gradients,
                                 {.scale = 1 / wire_scale<Wire>, .scratch = &scratch_});
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
    return pointers_of(partials_.values().tensors(), i);
  }
  void clear_gradients() {
    for (auto const& tensor : partials_.values().tensors())
      std::fill_n(tensor.data, tensor.slots * tensor.stride, Real{0});
  }

 private:
  static constexpr auto same_type = std::is_same_v<Real, Wire>;

  fssdp::rank_id rank_;
  std::array<std::size_t, 4> elements_;
  fssdp::topology machine_;
  fssdp::load_window window_;
  layer_shard_view<Real> shard_;
  std::optional<fssdp::transfer_plan> plan_;
  wire_buffer<Real, Wire> replicas_;  // [foreign], or [held] where the wire has another type
  wire_buffer<Real, Wire> partials_;  // [held]
  std::optional<fssdp::held_experts<Real const>> held_;
  fssdp::scratch_memory scratch_;
};

}  // namespace moe_gpt
