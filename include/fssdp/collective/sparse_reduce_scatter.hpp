// SPDX-License-Identifier: Apache-2.0
/// SparseReduceScatter: partial gradients back to the owners, summed.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/collective/coded_call.hpp"
#include "fssdp/collective/plan_of_call.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// How gradients arrive.
struct reduce_options {
  double scale = 1.0;                       ///< multiplies the sum, once
  write_mode into = write_mode::overwrite;  ///< or add to what is there
  /// Kept between calls, so that they do not allocate; one for each communicator.
  scratch_memory* scratch = nullptr;
  /// Where the communicator's memory is a device's: memory of it for what is not a list, at a cache
  /// line; memory_required says how much is always enough. Without, it is allocated in the order of
  /// the stream.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

struct reduction_buffers;

/// A reduction on one rank, ready to run: what it needs besides the memory of gradients and the
/// scratch is in it.
class reduction_call {
 public:
  /// @param find from types of `from` to those of `to`, or to accumulator_of them
  reduction_call(transfer_plan const& plan, rank_id rank, tensor_list from, tensor_list to,
                 find_sum find, reduce_options const& options)
      : plan_{plan},
        rank_{rank},
        from_{std::move(from)},
        to_{std::move(to)},
        find_{find},
        options_{options} {}

  /// @param residuals one for every partial, of floats, or none
  /// @throws argument_error unless the buffers fit the plan
  void check(int ranks, tensor_list const* residuals = nullptr) const;
  /// Error feedback goes there from now on.
  void keep_residuals(tensor_list residuals) { residuals_ = std::move(residuals); }

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }
  void run(communicator_ref const& comm) const;
  void run_coded(communicator_ref const& comm, payload_codec const& coder, link_class on) const;

 private:
  static constexpr auto name = "sparse_reduce_scatter";

  [[nodiscard]] reduction_buffers buffers() const;

  transfer_plan plan_;
  rank_id rank_;
  tensor_list from_;
  tensor_list to_;
  tensor_list residuals_;
  find_sum find_;
  reduce_options options_;
};

/// To be checked before it runs.
template <communicator Comm, expert_memory From, expert_memory To>
[[nodiscard]] reduction_call unchecked_reduction(Comm const& comm, transfer_plan const& plan,
                                                 From const& from, To& to,
                                                 reduce_options const& options) {
  using Partial = element_of<From const>;
  using Gradient = element_of<To>;
  static_assert(element<Gradient> && !is_read_only<To>, "to is to be written");
  return {plan_of_call(comm, plan),      comm.rank(), tensor_list{from}, tensor_list{to},
          &known_sum<Partial, Gradient>, options};
}
/// @throws argument_error if the buffers do not fit the plan
template <communicator Comm, expert_memory From, expert_memory To>
[[nodiscard]] reduction_call make_reduction(Comm const& comm, transfer_plan const& plan,
                                            From const& from, To& to, reduce_options const& options,
                                            tensor_list const* residuals = nullptr) {
  auto call = unchecked_reduction(comm, plan, from, to, options);
  call.check(comm.size(), residuals);
  if (residuals != nullptr) call.keep_residuals(*residuals);
  return call;
}

/// Reduces with payloads over some links.
template <element Partial, communicator Comm, codec Codec>
void reduce_coded(Comm& comm, reduction_call call, coded_links<Codec> const& links) {
  static_assert(can_code<Comm, Codec>,
                "this codec has no kernels: on devices int8_codec, fp8_e4m3_codec, fp8_e5m2_codec "
                "and bf16_codec have");
  submit(comm, coded_call{std::move(call), links,
                          &payload_codec::make<Partial, accumulator_t<Partial>, Codec>});
}

}  // namespace detail

/// Sums every expert's partial gradients over all that hold it, each chunk at its owner. The
/// transpose of sparse_all_gather: the same plan, read backwards.
///
/// A rank that passes a chunk on in a gather sums here what comes back before it sends the sum on.
/// Sums are formed in accumulator_t (of doubles double, else float), in ascending rank order of
/// those that contribute, the summing rank's own partial at its place among them; scaled and
/// rounded once, at the owner. A direct plan thus sums all holders in rank order. It goes by
/// `plan.reduction()`, which is meant where this says plan.
///
/// @param from [materialized, elements] per tensor: partial gradients, ascending experts
/// @param to   [owned, slice_elements] per tensor: gradients, in the layout's slot order, in any
///             element type; padding behind a shorter slice is not written
/// @pre verify accepts the plan; every rank calls with an equal plan and equal sizes; `from` and
///      `to` do not overlap; memory and scratch live until the communicator is synchronized: where
///      it is bound to a stream, a temporary buffer that owns its memory does not compile. The plan,
///      views and lists of views may be temporaries: the call keeps its own
/// @post `to` has scale * (sum over the holders), the own partial counted once; equal plans give
///       equal bits, whatever the timing
/// @cost a message per tensor of each of the rank's transfers in the plan, in the type of `from`,
///       or in accumulator_t where it is already a sum; rounds as in a gather; scratch for the sums
///       that a rank passes on, and, unless peers' memory can be borrowed, for what it receives in
///       one round; one allocation if no scratch is given
/// @throws argument_error before anything is sent; transport errors
/// (Paper: spRS, SparseReduceScatter)
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           reduce_options const& options = {}) {
  submit(comm, detail::make_reduction(comm, plan, from, to, options));
}

/// The same, and what goes over some links is coded, each of them by itself: the partial or the sum
/// is encoded where it is sent, and decoded where it is summed.
///
/// @param links the codec, with equal options on every rank, and the links that it is for
/// @post `to` has that sum of what is decoded, in the same order; chunks that travel over no coded
///       link have the bits that they have without a codec
/// @cost messages as without a codec; those over coded links have the size of their payloads.
///       Scratch for the payloads that a rank sends, too, and on the host for some 1024 elements of
///       each operand of a sum. On a device a launch encodes a partial, and one sums a piece,
///       payloads as they are, and encodes that if it goes on coded; codecs there are the library's
/// @throws as without a codec; ranks_disagree if codecs or links differ
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, reduce_options const& options = {}) {
  detail::reduce_coded<element_of<From>>(
      comm, detail::make_reduction(comm, plan, from, to, options), links);
}

/// The same with error feedback: what a payload lacks is added to what the rank sends in the next
/// step. What is lost over any number of steps is then what is left in the residuals.
///
/// @param residuals float [materialized, elements] per tensor: zero at first, kept between steps. They
///                  belong to the plan: when the placement changes, whoever holds other experts
///                  moves them or sets them to zero
/// @pre residuals overlap neither `from` nor `to` and live as long
/// @post the residual of what a rank sends over a coded link, if it holds the expert, is what
///       encode_with_feedback leaves; all others are untouched. A rank that only relays a piece has
///       no residual for it: what its payload lacks is lost
/// @cost the same; a payload with a residual is decoded where it is made, too
template <communicator Comm, expert_memory From, expert_memory To, codec Codec,
          expert_memory Residuals>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm> &&
    outlives_the_call<Residuals, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, Residuals&& residuals,
                           reduce_options const& options = {}) {
  static_assert(std::same_as<element_of<Residuals>, float> && !is_read_only<Residuals>,
                "residuals are floats, to be written");
  auto const left = detail::tensor_list{residuals};
  detail::reduce_coded<element_of<From>>(
      comm, detail::make_reduction(comm, plan, from, to, options, &left), links);
}

/// The same without a codec.
/// @cost as of the first
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to, uncoded,
                           reduce_options const& options = {}) {
  sparse_reduce_scatter(comm, plan, from, to, options);
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/sparse_reduce_scatter_inl.hpp"
#endif
