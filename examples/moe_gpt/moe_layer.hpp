// SPDX-License-Identifier: Apache-2.0
/// A mixture-of-experts layer over all ranks: tokens go to the experts and come back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "expert.hpp"
#include "expert_part.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/permute.hpp"
#include "fssdp/token/token_counts.hpp"
#include "fssdp/token/token_plan.hpp"
#include "gate.hpp"
#include "model_shape.hpp"

namespace moe_gpt {

/// How full the devices were in one layer: the fullest over the average.
struct layer_loads {
  double as_ep = 1;  ///< if every expert had stayed at its owner
  double as_is = 1;
};

template <class Real, class Wire>
class moe_layer {
 public:
  moe_layer(model_shape const& shape, fssdp::rank_id rank, fssdp::topology const& machine,
            layer_shard_view<Real> experts)
      : shape_{shape}, experts_{shape, rank, machine, std::move(experts)} {}

  [[nodiscard]] expert_part<Real, Wire>& experts() { return experts_; }
  [[nodiscard]] fssdp::expert_loads const& loads() const { return loads_; }

  /// y [tokens, d_model] is written. Every rank calls, also without tokens.
  template <fssdp::communicator Comm>
  void forward(Comm& comm, input<Real> gate_weights, input<Real> x, output<Real> y) {
    auto const tokens = x.size() / shape_.d_model;
    gate_forward(gate_of(tokens), gate_weights, x, gate_);
    auto const choices = std::vector<fssdp::expert_id>(gate_.choices.begin(), gate_.choices.end());
    order_.emplace(choices, static_cast<int>(shape_.experts), static_cast<int>(shape_.top_k));
    auto const counts = fssdp::gather_counts(comm, order_->counts());
    loads_ = counts.loads();
    plan_.emplace(counts, experts_.where(), comm.rank(), experts_.machine());

    sent_.resize(plan_->sent_rows() * shape_.d_model);
    received_.resize(plan_->received_rows() * shape_.d_model);
    computed_.resize(received_.size());
    returned_.resize(sent_.size());
    fssdp::permute(*order_, rows(x), rows(sent_));
    fssdp::dispatch(comm, *plan_, rows(sent_), rows(received_));
    activations_.resize(std::max(activations_.size(), plan_->groups().size()));
    for (std::size_t i = 0; i < plan_->groups().size(); ++i)
      expert_forward(expert_of(i), experts_.weights(i), group(received_, i), group(computed_, i),
                     activations_[i]);
    fssdp::combine(comm, *plan_, rows(computed_), rows(returned_));
    fssdp::unpermute(*order_, std::span<Real const>{gate_.weights}, rows(returned_), rows(y));
  }

  /// dx [tokens, d_model] is written; gradients are added to the gate's and the experts'.
  template <fssdp::communicator Comm>
  void backward(Comm& comm, input<Real> gate_weights, input<Real> x, input<Real> dy, double balance,
                std::size_t global_tokens, output<Real> dx, output<Real> d_gate) {
    d_weights_.resize(gate_.weights.size());
    d_returned_.resize(returned_.size());
    d_computed_.resize(computed_.size());
    fssdp::unpermute_backward(*order_, std::span<Real const>{gate_.weights}, rows(returned_),
                              rows(dy), rows(d_returned_), std::span<Real>{d_weights_});
    fssdp::dispatch(comm, *plan_, rows(d_returned_), rows(d_computed_));  // backward of combine
    auto& d_received = computed_;                                         // no longer needed
    for (std::size_t i = 0; i < plan_->groups().size(); ++i)
      expert_backward(expert_of(i), experts_.weights(i), group(received_, i), group(d_computed_, i),
                      activations_[i], group(d_received, i), experts_.gradients(i), scratch_);
    auto& d_sent = d_returned_;
    fssdp::combine(comm, *plan_, rows(d_received), rows(d_sent));  // backward of dispatch
    fssdp::permute_backward(*order_, rows(d_sent), rows(dx));

    fractions_.assign(loads_.begin(), loads_.end());
    for (auto& fraction : fractions_)
      fraction /= static_cast<double>(global_tokens) * static_cast<double>(shape_.top_k);
    gate_backward(gate_of(x.size() / shape_.d_model), gate_weights, x,
                  std::span<Real const>{d_weights_},
                  {.coefficient = balance, .fractions = fractions_, .global_tokens = global_tokens},
                  gate_, dx, d_gate);
  }

  /// How full the devices were in the last forward pass.
  [[nodiscard]] layer_loads balance() {
    auto const& layout = experts_.layout();
    auto at_owners = std::vector<std::uint64_t>(static_cast<std::size_t>(layout.ranks()));
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts()))
      at_owners[layout.owner(expert).index()] += loads_[expert.index()];
    return {fssdp::max_over_mean(at_owners), fssdp::max_over_mean(plan_->device_loads())};
  }

 private:
  [[nodiscard]] gate_shape gate_of(std::size_t tokens) const {
    return {.tokens = tokens,
            .d_model = shape_.d_model,
            .experts = shape_.experts,
            .top_k = shape_.top_k};
  }
  [[nodiscard]] expert_shape expert_of(std::size_t i) const {
    return {plan_->groups()[i].rows, shape_.d_model, shape_.d_ff()};
  }
  template <class Values>
  [[nodiscard]] auto rows(Values& values) const {
    auto const all = std::span{values};
    return fssdp::rows_view<typename decltype(all)::element_type>{
        all.data(), all.size() / shape_.d_model, shape_.d_model};
  }
  /// The rows of the i-th expert that this rank holds.
  [[nodiscard]] std::span<Real> group(std::vector<Real>& values, std::size_t i) const {
    auto const& expert = plan_->groups()[i];
    return rows(values).elements(expert.first, expert.rows);
  }

  model_shape shape_;
  expert_part<Real, Wire> experts_;
  gate_activations<Real> gate_;
  std::optional<fssdp::expert_order> order_;
  std::optional<fssdp::token_plan> plan_;
  fssdp::expert_loads loads_;
  std::vector<double> fractions_;
  std::vector<Real> sent_, returned_, d_returned_;      // [sent, d_model]
  std::vector<Real> received_, computed_, d_computed_;  // [received, d_model]
  std::vector<Real> d_weights_;                         // [tokens, top_k]
  std::vector<expert_activations<Real>> activations_;   // per held expert
  expert_scratch<Real> scratch_;
};

}  // namespace moe_gpt
