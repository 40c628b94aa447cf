// SPDX-License-Identifier: Apache-2.0
/// Runs iterations: gathers layers before they are needed, and reduces them while the next one
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

/// An expert that a rank computes with, of types known only at run time: each tensor has one slot.
struct any_expert {
  expert_id id;
  std::vector<any_const_tensor> tensors;
};

/// The experts of all MoE layers of a model during training. Between steps they are sharded. During
/// a step, the replicas of a layer exist from `prefetch` or `acquire` to `release`, its partial
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
/// gathers and reductions run asynchronously; on any other they run within the call. The results
/// have the same bits. Between devices, the communicator is a side_stream_communicator
/// (on_side_stream): where a call would wait, it makes the caller's stream wait, not the host.
///
/// A layer has one placement per iteration: the solver's for the predicted loads, shrunk to the
/// room in the pool. After construction nothing is allocated for parameters. The states of a layer
/// are in layer_state.hpp, their diagram is in the README.md of this folder.
/// (Paper, sections on materialization, re-materialization and calibration)
class materializer {
 public:
  /// @param comm only gathers and reductions go over it
  /// @param shards what this rank owns
  /// @param policy solvers, predictor, planner, and which links are coded
  /// @pre communicator, arenas and trace sink outlive the materializer. Its destructor waits for
  ///      the work that uses its memory
  /// @throws argument_error before anything is allocated, if shards, options or pools do not fit
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
  /// The load predictor of a layer. Its memory can be saved and restored between iterations.
  [[nodiscard]] any_load_predictor& predictor(layer_id which);
  /// Who holds the experts of a layer in this iteration.
  /// @pre the layer has been prefetched or acquired in it
  [[nodiscard]] placement const& where(layer_id which) const;
  /// The plan of a layer in this iteration. Waits until it is made.
  /// @pre as where
  [[nodiscard]] transfer_plan const& plan(layer_id which);

  /// Begins to gather a layer: chooses its placement, then plans and gathers on the stream. Does
  /// nothing if the layer is gathered already. If slots have to be released first, the layer is
  /// gathered when it is acquired. Does not wait for other ranks: over NCCL, ranks must compare
  /// their plans before they gather (announcing_communicator); while that is in progress, a later
  /// call enqueues the gather.
  /// @throws argument_error if there is no such layer; transport errors of earlier work; over NCCL
  ///         ranks_disagree, before anything is sent by a new plan, if ranks have recorded
  ///         different loads
  void prefetch(layer_id which);

  /// Waits until a layer is gathered, and begins to gather the next ones. The experts keep their
  /// addresses until all micro-batches that have acquired the layer have released it, or until
  /// `calibrate`. Over NCCL it also waits if ranks are still comparing the plans of this iteration.
  /// @throws argument_error if this micro-batch has acquired the layer already, or if the pool
  ///         lacks room for the placement that the layer had earlier in this iteration; transport
  ///         errors
  void acquire(layer_id which, int micro_batch = 0, training_pass way = training_pass::forward);

  /// A view of the experts that this rank computes with, ascending.
  /// @tparam T the type of replicas
  /// @pre the layer is acquired. The view is valid until it is released or calibrated
  /// @throws argument_error if the layer is not acquired, or replicas are of another type
  template <element T>
  [[nodiscard]] materialized_experts<T const> experts(layer_id which) const {
    require_type<T>("experts", &tensor_types::replica);
    auto tensors = std::vector<std::span<T const>>{};
    for (auto const& tensor : acquired(which)) tensors.emplace_back(tensor.as<T const>()[0]);
    return {held(which), std::move(tensors)};
  }
  /// The same as tensors [materialized, elements], for batched matrix products.
  /// @throws argument_error as experts, and without materializer_options::in_one_piece
  template <element T>
  [[nodiscard]] std::vector<expert_tensor<T const>> experts_in_one_piece(layer_id which) const {
    require_type<T>("experts_in_one_piece", &tensor_types::replica);
    auto tensors = std::vector<expert_tensor<T const>>{};
    for (auto const& tensor : in_one_piece(which)) tensors.push_back(tensor.as<T const>());
    return tensors;
  }

  /// The same for types that are known only at run time, or differ between the tensors of an
  /// expert.
  [[nodiscard]] std::vector<any_expert> any_experts(layer_id which) const;

  /// Ends the use that `acquire` began. The last release drops the replicas unless they are kept.
  /// @throws argument_error if this micro-batch has not acquired the layer
  void release(layer_id which, int micro_batch = 0);

  /// To be called when the router has chosen experts: solves for the real loads, and gathers the
  /// replicas that are missing, if that takes less time than it saves. Existing replicas stay.
  /// Where experts are coded and get more replicas, all their holders receive them again.
  /// @param counts tokens of every rank for every expert, equal on all ranks
  /// @return whether replicas were added: then call `experts` again
  /// @pre exactly one micro-batch has acquired the layer, the first one of this iteration
  /// @throws argument_error otherwise; transport errors
  /// (Paper, calibration)
  bool calibrate(layer_id which, token_counts const& counts);

  /// The buffer in which the partial gradients of a layer are accumulated: [materialized, elements]
  /// per tensor, zero when it is first asked for. Waits for older reductions if there is no room.
  /// @tparam T the type of partial gradients
  /// @throws argument_error if the pool is too small, or partials are of another type; transport
  ///         errors
  template <element T>
  [[nodiscard]] std::vector<expert_tensor<T>> partials(layer_id which) {
    require_type<T>("partials", &tensor_types::partial);
    auto views = std::vector<expert_tensor<T>>{};
    for (auto const& tensor : room_for_partials(which)) views.push_back(tensor.as<T>());
    return views;
  }

  /// The same for types that are known only at run time.
  [[nodiscard]] std::vector<any_tensor> any_partials(layer_id which);

  /// Begins to sum the partial gradients of a layer at their owners; to be called after its last
  /// micro-batch. A second reduction in one iteration adds to the first. Replicas that no
  /// micro-batch uses are dropped. Over NCCL, this call also plans the layer for the next
  /// iteration, by the loads recorded so far.
  /// @throws argument_error as partials; transport errors of earlier work
  void reduce(layer_id which);
  /// The same for partial gradients in memory of the caller, [materialized, elements] per tensor,
  /// of the type of partial gradients.
  /// @pre the memory (not the views) lives, and is unchanged, until `step`
  /// @throws argument_error if they have another shape or type; transport errors of earlier work
  template <tensor_memory Partials>
  void reduce(layer_id which, Partials const& own) {
    reduce_own(which, detail::tensor_list{own});
  }

  /// Records the real loads of a layer in a micro-batch; the next placements are predicted from
  /// them. Best called before the layer is reduced: over NCCL, that call plans its next iteration.
  /// If loads are recorded later, `step` plans again.
  /// @param device_loads rows of every rank, for the metrics of load balance; may be empty
  /// @throws argument_error if there are not as many loads as experts
  void record(layer_id which, std::span<std::uint64_t const> loads,
              std::span<std::uint64_t const> device_loads = {});

  /// Ends the iteration. Afterwards all gradients are at their owners, and no peer reads this
  /// rank's weights any more: the optimizer may write them. Over NCCL, ranks begin to compare the
  /// plans of the next iteration, in one exchange, asynchronously.
  /// @throws argument_error if a layer is still acquired or has partials that are not reduced;
  ///         transport errors
  iteration_metrics step();

  /// As above, around the optimizer: ends the iteration, calls update(metrics), and then moves
  /// experts to other owners if that is due and the sharding solver of the policy decides so.
  /// @param moved all buffers to move, as for `reshard`
  template <tensor_memory Moved>
  iteration_metrics step(detail::function_ref<void(iteration_metrics const&)> update,
                         Moved&& moved) {
    static_assert(!is_read_only<Moved>, "expected buffers that can be written");
    return step_and_move(update, detail::tensor_list{moved});
  }

  /// Whether a reshard is due by reshard_every. To be asked after `step`, before the next
  /// iteration.
  [[nodiscard]] bool is_reshard_due() const;
  /// Moves experts to other owners, with all that belongs to them.
  /// @param next the layouts of all layers, such as a sharding solver returns for the expected
  ///        loads
  /// @param moved everything that an owner keeps of its experts: bytes_of(weights, moments...)
  /// @pre the iteration has ended, and the optimizer has finished
  /// @throws argument_error as reshard, and if an arena is too small; transport errors
  template <tensor_memory Moved>
  void reshard(layer_stack<table_layout> const& next, Moved&& moved) {
    static_assert(!is_read_only<Moved>, "expected buffers that can be written");
    move_experts(next, detail::tensor_list{moved});
  }

 private:
  materializer(detail::work_queue const& queue, expert_shards shards, materializer_policy policy,
               materializer_options const& options);

  [[nodiscard]] std::span<tensor_types const> tensors() const;
  [[nodiscard]] std::span<expert_id const> held(layer_id which) const;
  /// The tensors of all experts that the rank holds, each tensor with one slot.
  [[nodiscard]] std::vector<detail::tensor_view> acquired(layer_id which) const;
  [[nodiscard]] std::span<detail::tensor_view const> in_one_piece(layer_id which) const;
  [[nodiscard]] std::span<detail::tensor_view const> room_for_partials(layer_id which);
  void reduce_own(layer_id which, detail::tensor_list own);
  iteration_metrics step_and_move(detail::function_ref<void(iteration_metrics const&)> update,
                                  detail::tensor_list moved);
  void move_experts(layer_stack<table_layout> const& next, detail::tensor_list moved);

  /// @throws argument_error unless this type (replica or partial) of all tensors is T
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
