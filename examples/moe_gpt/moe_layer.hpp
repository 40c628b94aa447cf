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
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "fssdp/token/permute.hpp"
#include "fssdp/token/token_plan.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "model_shape.hpp"
#include "router.hpp"

namespace moe_gpt {

/// The i-th expert of some tensors [slots, elements] as its four tensors.
template <class Real>
[[nodiscard]] expert_tensors<Real> expert_at(std::span<fssdp::expert_tensor<Real> const> tensors,
                                             std::size_t i) {
  return {tensors[0][i].data(), tensors[1][i].data(), tensors[2][i].data(), tensors[3][i].data()};
}

/// The experts themselves are lent for each pass: what this rank holds, ascending.
template <class Real>
class moe_layer {
 public:
  using held_type = fssdp::materialized_experts<Real const>;

  moe_layer(model_shape const& shape, fssdp::topology const& topo, fssdp::layer_id layer = {},
            fssdp::trace_output const& trace = {},
            fssdp::routing_rule routing = fssdp::routing_rule::even)
      : shape_{shape}, topo_{topo}, layer_{layer}, trace_{trace}, routing_{routing} {}

  /// Tokens of each expert in the last forward pass, over all ranks.
  [[nodiscard]] fssdp::expert_loads const& loads() const { return loads_; }
  /// Rows that each rank has worked on in it.
  [[nodiscard]] std::span<std::uint64_t const> device_loads() const {
    return plan_->device_loads();
  }

  /// Chooses two experts for each row of x [tokens, d_model], and counts over all ranks. Every rank
  /// calls, also without tokens.
  template <fssdp::communicator Comm>
  fssdp::token_counts choose(Comm& comm, input<Real> router_weights, input<Real> x) {
    router_forward(router_of(x.size() / shape_.d_model), router_weights, x, router_);
    auto const choices =
        std::vector<fssdp::expert_id>(router_.choices.begin(), router_.choices.end());
    order_.emplace(choices, static_cast<int>(shape_.experts), static_cast<int>(shape_.top_k));
    auto counts = fssdp::gather_counts(comm, order_->counts());
    loads_ = counts.loads();
    return counts;
  }

  /// y [tokens, d_model] is written, after `choose`. Every rank calls.
  template <fssdp::communicator Comm>
  void forward(Comm& comm, fssdp::token_counts const& counts, fssdp::placement const& where,
               held_type const& experts, input<Real> x, output<Real> y) {
    fssdp::with_routing(routing_, counts, where, topo_, [&](auto const& routing) {
      plan_.emplace(counts, routing, comm.rank(),
                    fssdp::row_orders{.sent = fssdp::row_order::by_rank});
    });
    sent_order_.emplace(*order_, *plan_);

    sent_.resize(plan_->sent_rows() * shape_.d_model);
    received_.resize(plan_->received_rows() * shape_.d_model);
    computed_.resize(received_.size());
    returned_.resize(sent_.size());
    fssdp::permute(*sent_order_, rows(x), rows(sent_));
    auto sending = range(fssdp::dispatch_track, "dispatch");
    fssdp::dispatch(comm, *plan_, rows(sent_), rows(received_), moving());
    sending.end();
    auto computing = range(fssdp::compute_track, "experts");
    activations_.resize(std::max(activations_.size(), plan_->groups().size()));
    for (std::size_t i = 0; i < plan_->groups().size(); ++i)
      expert_forward(expert_of(i), weights_of(experts, i), group(received_, i), group(computed_, i),
                     activations_[i]);
    computing.end();
    auto returning = range(fssdp::dispatch_track, "combine");
    fssdp::combine(comm, *plan_, rows(computed_), rows(returned_), moving());
    returning.end();
    fssdp::unpermute(*sent_order_, std::span<Real const>{router_.weights}, rows(returned_),
                     rows(y));
  }

  /// dx [tokens, d_model] is written; gradients are added to the router's and the experts'.
  template <fssdp::communicator Comm>
  void backward(Comm& comm, held_type const& experts,
                std::span<fssdp::expert_tensor<Real> const> partials, input<Real> router_weights,
                input<Real> x, input<Real> dy, double balance, std::size_t global_tokens,
                output<Real> dx, output<Real> d_router) {
    d_weights_.resize(router_.weights.size());
    d_returned_.resize(returned_.size());
    d_computed_.resize(computed_.size());
    fssdp::unpermute_backward(*sent_order_, std::span<Real const>{router_.weights}, rows(returned_),
                              rows(dy), rows(d_returned_), std::span<Real>{d_weights_});
    auto sending = range(fssdp::dispatch_track, "combine backward");
    fssdp::dispatch(comm, *plan_, rows(d_returned_), rows(d_computed_), moving());
    sending.end();
    auto computing = range(fssdp::compute_track, "experts backward");
    auto& d_received = computed_;  // no longer needed
    for (std::size_t i = 0; i < plan_->groups().size(); ++i)
      expert_backward(expert_of(i), weights_of(experts, i), group(received_, i),
                      group(d_computed_, i), activations_[i], group(d_received, i),
                      expert_at(partials, i), scratch_);
    auto& d_sent = d_returned_;
    computing.end();
    auto returning = range(fssdp::dispatch_track, "dispatch backward");
    fssdp::combine(comm, *plan_, rows(d_received), rows(d_sent), moving());
    returning.end();
    fssdp::permute_backward(*sent_order_, rows(d_sent), rows(dx));

    fractions_.assign(loads_.begin(), loads_.end());
    for (auto& fraction : fractions_)
      fraction /= static_cast<double>(global_tokens) * static_cast<double>(shape_.top_k);
    router_backward(
        router_of(x.size() / shape_.d_model), router_weights, x, std::span<Real const>{d_weights_},
        {.coefficient = balance, .fractions = fractions_, .global_tokens = global_tokens}, router_,
        dx, d_router);
  }

 private:
  [[nodiscard]] auto range(fssdp::trace_track track, fssdp::static_text what) {
    return fssdp::trace_range{&trace_, track, what, {.layer = layer_.value()}};
  }
  [[nodiscard]] fssdp::token_options moving() { return {.scratch = &token_scratch_}; }
  [[nodiscard]] router_shape router_of(std::size_t tokens) const {
    return {.tokens = tokens,
            .d_model = shape_.d_model,
            .experts = shape_.experts,
            .top_k = shape_.top_k};
  }
  [[nodiscard]] static expert_tensors<Real const> weights_of(held_type const& experts,
                                                             std::size_t i) {
    auto const tensors = experts[i].tensors;
    return {tensors[0].data(), tensors[1].data(), tensors[2].data(), tensors[3].data()};
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
  fssdp::topology topo_;
  fssdp::layer_id layer_;
  fssdp::trace_output trace_;
  fssdp::routing_rule routing_;
  router_activations<Real> router_;
  std::optional<fssdp::expert_order> order_;
  std::optional<fssdp::expert_order> sent_order_;  // the same as rows are sent
  std::optional<fssdp::token_plan> plan_;
  fssdp::expert_loads loads_;
  std::vector<double> fractions_;
  std::vector<Real> sent_, returned_, d_returned_;      // [sent, d_model]
  std::vector<Real> received_, computed_, d_computed_;  // [received, d_model]
  std::vector<Real> d_weights_;                         // [tokens, top_k]
  std::vector<expert_activations<Real>> activations_;   // per held expert
  expert_scratch<Real> scratch_;
  fssdp::scratch_memory token_scratch_;
};

}  // namespace moe_gpt
