// SPDX-License-Identifier: Apache-2.0
/// The iteration: gathers layers before they are needed and reduces them while the next one
/// computes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"
#include "fssdp/placement/any_load_predictor.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/runtime/expert_shards.hpp"
#include "fssdp/runtime/iteration_metrics.hpp"
#include "fssdp/runtime/materializer_options.hpp"
#include "fssdp/runtime/materializer_policy.hpp"
#include "fssdp/runtime/work_queue.hpp"

namespace fssdp {

namespace detail {

class materializer_core;

}  // namespace detail

/// An expert that a rank computes with, its types known at run time: each tensor has one slot.
struct any_expert {
  expert_id id;
  std::vector<any_const_tensor> tensors;
};

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
/// bits are the same. Between devices the communicator is a side_stream_communicator (beside): what
/// would wait is then the caller's stream, not the caller.
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
  /// @pre the communicator, the arenas and the sink of a trace outlive it; its destructor waits for
  ///      the work that uses its memory
  /// @throws argument_error if shards, options or pools do not fit: before anything is allocated
  template <materializing_communicator Comm>
  materializer(Comm& comm, expert_shards shards, materializer_policy policy = {},
               materializer_options const& options = {})
      : materializer{detail::work_queue{comm}, std::move(shards), std::move(policy), options} {}
  materializer(materializer&&) noexcept;
  materializer& operator=(materializer&&) noexcept;
  ~materializer();

  [[nodiscard]] int layers() const;
  [[nodiscard]] layer_stack<table_layout> const& layouts() const;
  /// The loads that the next iteration is planned with.
  [[nodiscard]] expert_loads expected_loads(layer_id which) const;
  /// What expects the loads of a layer: between iterations its memory can be kept, and recalled.
  [[nodiscard]] any_load_predictor& predictor(layer_id which);
  /// Who holds the experts of a layer in this iteration.
  /// @pre the layer has been prefetched or acquired in it
  [[nodiscard]] placement const& where(layer_id which) const;
  /// How they get it. Waits until it is planned.
  /// @pre likewise
  [[nodiscard]] transfer_plan const& plan(layer_id which);

  /// Begins to gather a layer: chooses its placement, and has it planned and gathered on the stream.
  /// Nothing happens if it is there; or if there is no room now and will be: then it is gathered
  /// when it is acquired. It does not wait for other ranks: over NCCL, which needs the ranks to have
  /// compared their plans first (announcing_communicator), a layer for which that goes on is put on
  /// the stream by a later call.
  /// @throws argument_error if there is no such layer; transport errors of earlier work; over NCCL
  ///         ranks_disagree if ranks have come with other loads, before anything is sent by a plan
  ///         that is new
  void prefetch(layer_id which);

  /// Waits until a layer is there, and has the next ones gathered. The experts keep their addresses
  /// until all micro-batches that have acquired the layer have released it, or until `calibrate`.
  /// Over NCCL it waits if ranks still compare the plans of this iteration.
  /// @throws argument_error if this micro-batch has it already, or the pool has no room for a
  ///         placement that this iteration has begun with; transport errors
  void acquire(layer_id which, int micro_batch = 0, training_pass way = training_pass::forward);

  /// What this rank computes with, ascending experts: a view.
  /// @tparam T the type of replicas
  /// @pre the layer is acquired; the view is used until it is released or calibrated
  /// @throws argument_error if it is not acquired, or replicas are of another type
  template <element T>
  [[nodiscard]] materialized_experts<T const> experts(layer_id which) const {
    require_type<T>("experts", &tensor_types::replica);
    auto tensors = std::vector<std::span<T const>>{};
    for (auto const& tensor : acquired(which)) tensors.emplace_back(tensor.as<T const>()[0]);
    return {held(which), std::move(tensors)};
  }
  /// The same as tensors [materialized, elements], for products of many matrices at once.
  /// @throws argument_error likewise, and without materializer_options::in_one_piece
  template <element T>
  [[nodiscard]] std::vector<expert_tensor<T const>> experts_in_one_piece(layer_id which) const {
    require_type<T>("experts_in_one_piece", &tensor_types::replica);
    auto tensors = std::vector<expert_tensor<T const>>{};
    for (auto const& tensor : in_one_piece(which)) tensors.push_back(tensor.as<T const>());
    return tensors;
  }

  /// The same for types that are known at run time, or differ between the tensors of an expert.
  [[nodiscard]] std::vector<any_expert> any_experts(layer_id which) const;

  /// Ends what `acquire` began.
  /// @throws argument_error if this micro-batch has not acquired the layer
  void release(layer_id which, int micro_batch = 0);

  /// After the gate: plans with the real loads and gathers what is missing, if that takes less time
  /// than it saves. Replicas that are there stay; coded ones that more ranks get come again to all.
  /// @param counts tokens of every rank for every expert, equal on all ranks
  /// @return whether replicas have been added: take `experts` again
  /// @pre one micro-batch has acquired the layer, the first of this iteration
  /// @throws argument_error if not; transport errors
  /// (Paper, calibration)
  bool calibrate(layer_id which, token_counts const& counts);

  /// Where the partial gradients of a layer are added up: [materialized, elements] per tensor, zero
  /// at first. Waits for older reductions if there is no room.
  /// @tparam T the type of partial gradients
  /// @throws argument_error if there will be none, or they are of another type; transport errors
  template <element T>
  [[nodiscard]] std::vector<expert_tensor<T>> partials(layer_id which) {
    require_type<T>("partials", &tensor_types::partial);
    auto views = std::vector<expert_tensor<T>>{};
    for (auto const& tensor : room_for_partials(which)) views.push_back(tensor.as<T>());
    return views;
  }

  /// The same for types that are known at run time.
  [[nodiscard]] std::vector<any_tensor> any_partials(layer_id which);

  /// Begins to sum the partial gradients of a layer at their owners: after its last micro-batch. A
  /// second reduction in one iteration adds to the first. Replicas that nobody uses are dropped.
  /// Over NCCL the layer is planned here for the next iteration, by the loads recorded so far.
  /// @throws argument_error as partials; transport errors of earlier work
  void reduce(layer_id which);
  /// The same for partial gradients of the caller's own, [materialized, elements] per tensor, of
  /// the type of partial gradients.
  /// @pre their memory, not the views of it, lives and stays as it is until `step`
  /// @throws argument_error if they have another shape or type; transport errors of earlier work
  template <tensor_memory Partials>
  void reduce(layer_id which, Partials const& own) {
    reduce_own(which, detail::tensor_list{own});
  }

  /// Takes in the real loads of a layer and micro-batch, for the next placements. Best before the
  /// layer is reduced, as over NCCL it is planned then; again by `step` if loads are recorded later.
  /// @param device_loads rows of every rank, if the metrics are to tell how full they were
  /// @throws argument_error on another number of experts
  void record(layer_id which, std::span<std::uint64_t const> loads,
              std::span<std::uint64_t const> device_loads = {});

  /// Closes the iteration: all gradients are there, and no peer reads this rank's weights any more,
  /// so the optimizer may write them. Over NCCL all ranks begin to compare the plans of the next one,
  /// in one exchange; it goes on while the caller does.
  /// @throws argument_error if a layer is still acquired or has partials that are not reduced;
  ///         transport errors
  iteration_metrics step();

  /// The same around the optimizer: closes the iteration, calls update(metrics), and moves experts
  /// to other owners if that is due and the sharding solver of the policy wants it.
  /// @param moved as `reshard` takes it
  template <tensor_memory Moved>
  iteration_metrics step(detail::function_ref<void(iteration_metrics const&)> update,
                         Moved&& moved) {
    static_assert(!is_read_only<Moved>, "what is moved is to be written");
    return step_and_move(update, detail::tensor_list{moved});
  }

  /// Whether it is time to choose other owners: between `step` and the next iteration.
  [[nodiscard]] bool is_reshard_due() const;
  /// Experts go to other owners, with all that belongs to them.
  /// @param next the layouts of all layers: of a sharding solver, from the expected loads
  /// @param moved what an owner has of its experts: bytes_of(weights, moments...)
  /// @pre the iteration is closed, and the optimizer has finished with it
  /// @throws argument_error as reshard, and if an arena is too small; transport errors
  template <tensor_memory Moved>
  void reshard(layer_stack<table_layout> const& next, Moved&& moved) {
    static_assert(!is_read_only<Moved>, "what is moved is to be written");
    move_experts(next, detail::tensor_list{moved});
  }

 private:
  materializer(detail::work_queue const& queue, expert_shards shards, materializer_policy policy,
               materializer_options const& options);

  [[nodiscard]] std::span<tensor_types const> tensors() const;
  [[nodiscard]] std::span<expert_id const> held(layer_id which) const;
  /// All tensors of all experts that the rank holds, each of one slot.
  [[nodiscard]] std::vector<detail::tensor_view> acquired(layer_id which) const;
  [[nodiscard]] std::span<detail::tensor_view const> in_one_piece(layer_id which) const;
  [[nodiscard]] std::span<detail::tensor_view const> room_for_partials(layer_id which);
  void reduce_own(layer_id which, detail::tensor_list own);
  iteration_metrics step_and_move(detail::function_ref<void(iteration_metrics const&)> update,
                                  detail::tensor_list moved);
  void move_experts(layer_stack<table_layout> const& next, detail::tensor_list moved);

  /// @throws argument_error unless that type of all tensors is T
  template <element T>
  void require_type(char const* call, dtype tensor_types::*which) const {
    for (auto const& tensor : tensors())
      detail::require(tensor.*which == dtype_of<T>, "materializer: ", call, " of type ",
                      name_of(dtype_of<T>), "; expected ", name_of(tensor.*which));
  }

  std::unique_ptr<detail::materializer_core> core_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/runtime/materializer_inl.hpp"
#endif
