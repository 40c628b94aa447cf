// SPDX-License-Identifier: Apache-2.0
/// SparseReduceScatter: sums partial gradients at their owners.
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

/// How a reduction writes its sums and uses memory.
struct reduce_options {
  double scale = 1.0;                       ///< multiplies each sum, once
  write_mode into = write_mode::overwrite;  ///< or add to what `to` contains
  /// Kept between calls, so that they do not allocate; one for each communicator.
  scratch_memory* scratch = nullptr;
  /// For communicators that work on device memory: device memory for what is not a list, aligned to
  /// a cache line; memory_required says how much is always enough. If empty, it is allocated in
  /// stream order.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

struct reduction_buffers;

/// A reduction on one rank, ready to run. It keeps all that it needs but the memory of gradients
/// and the scratch.
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

  /// @param residuals [materialized, elements] of floats per tensor, or null
  /// @throws argument_error unless the buffers fit the plan
  void check(int ranks, tensor_list const* residuals = nullptr) const;
  /// Turns error feedback on, with these residuals.
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

/// The call without its argument checks.
template <communicator Comm, expert_memory From, expert_memory To>
[[nodiscard]] reduction_call unchecked_reduction(Comm const& comm, transfer_plan const& plan,
                                                 From const& from, To& to,
                                                 reduce_options const& options) {
  using Partial = element_of<From const>;
  using Gradient = element_of<To>;
  static_assert(element<Gradient> && !is_read_only<To>, "expected a `to` that can be written");
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

/// Runs a reduction with a codec on some links.
template <element Partial, communicator Comm, codec Codec>
void reduce_coded(Comm& comm, reduction_call call, coded_links<Codec> const& links) {
  static_assert(can_code<Comm, Codec>,
                "this codec has no device kernels; expected int8_codec, fp8_e4m3_codec, "
                "fp8_e5m2_codec or bf16_codec");
  submit(comm, coded_call{std::move(call), links,
                          &payload_codec::make<Partial, accumulator_t<Partial>, Codec>});
}

}  // namespace detail

/// Sums the partial gradients of every expert over all ranks that hold it, at the owner of each
/// chunk. The transpose of sparse_all_gather: it uses the same plan, backwards (more precisely
/// `plan.reduction()`, which is meant by "the plan" below).
///
/// A rank that relays a chunk in a gather sums what comes back before it sends the sum on. Sums are
/// formed in accumulator_t (double for doubles, else float), in ascending order of the ranks that
/// contribute, this rank's own partial included; they are scaled and rounded once, at the owner. A
/// plan without relays thus sums all holders in rank order.
///
/// @param from [materialized, elements] per tensor: partial gradients, ascending experts
/// @param to   [owned, slice_elements] per tensor: gradients, in the layout's slot order, of any
///             element type; the padding of a shorter slice is not written
/// @pre verify accepts the plan; every rank calls with an equal plan and equal sizes; `from` and
///      `to` do not overlap. Memory and scratch live until the communicator is synchronized; on a
///      communicator that is bound to a stream, a temporary buffer that owns its memory does not
///      compile. The plan, views and lists of views may be temporaries: the call keeps its own
/// @post `to` has scale * (sum over the holders), where the owner's own partial counts once. Equal
///       plans give equal bits, whatever the timing
/// @cost one message per transfer of this rank and tensor, in the type of `from`, or in
///       accumulator_t where it is a sum already; rounds as in a gather. Scratch for the sums that
///       a rank passes on and, unless peers' memory can be read in place, for what it receives in
///       one round; one allocation if no scratch is given
/// @throws argument_error before anything is sent; transport errors
/// (Paper: spRS, SparseReduceScatter)
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           reduce_options const& options = {}) {
  submit(comm, detail::make_reduction(comm, plan, from, to, options));
}

/// The same, coded over some links. Each transfer is coded by itself: a partial or a sum is encoded
/// by its sender and decoded by the rank that sums it.
///
/// @param links the codec, with equal options on every rank, and the class of links to code
/// @post `to` has the sum of the decoded values, in the same order; chunks that travel over no
///       coded link have the bits that they have without a codec
/// @cost messages as without a codec; those over coded links have the size of their payloads.
///       Scratch also for the payloads that a rank sends, and on the host for about 1024 elements
///       of each operand of a sum. On a device, one launch encodes a partial; one launch sums a
///       piece with payloads as operands, and encodes the sum if it is sent over a coded link. Only
///       the library's codecs work there
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, reduce_options const& options = {}) {
  detail::reduce_coded<element_of<From>>(
      comm, detail::make_reduction(comm, plan, from, to, options), links);
}

/// The same with error feedback: the error of a payload is kept, and added to what the rank sends
/// in the next step. So the total error over any number of steps is what is left in the residuals.
///
/// @param residuals float [materialized, elements] per tensor: zero at first, kept between steps.
///                  They belong to the plan: if a rank holds other experts than before, the caller
///                  moves its residuals accordingly or sets them to zero
/// @pre residuals do not overlap `from` or `to`, and live as long
/// @post if a rank holds the expert, the residual of what it sends over a coded link is what
///       encode_with_feedback leaves; all others are unchanged. A rank that only relays a piece has
///       no residual for it: the error of its payload is lost
/// @cost as without feedback; a payload with a residual is also decoded by its sender
template <communicator Comm, expert_memory From, expert_memory To, codec Codec,
          expert_memory Residuals>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm> &&
    outlives_the_call<Residuals, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, Residuals&& residuals,
                           reduce_options const& options = {}) {
  static_assert(std::same_as<element_of<Residuals>, float> && !is_read_only<Residuals>,
                "expected residuals of floats that can be written");
  auto const left = detail::tensor_list{residuals};
  detail::reduce_coded<element_of<From>>(
      comm, detail::make_reduction(comm, plan, from, to, options, &left), links);
}

/// The same with `uncoded` as links, for callers that choose: without a codec.
/// @cost as the first overload
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
