// SPDX-License-Identifier: Apache-2.0
/// SparseReduceScatter: partial gradients back to the owners, summed.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/coded_reduction_memory.hpp"
#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/reduction_buffers.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/collective/reduction_pass.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/expert_tensor.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// How gradients arrive.
struct reduce_options {
  double scale = 1.0;           ///< multiplies the sum, once
  output into = output::write;  ///< or add to what is there
  /// Kept between calls, so that they do not allocate; one for each lane.
  scratch_memory* scratch = nullptr;
  /// Where the communicator's memory is a device's: memory of it for what is not a list, at a cache
  /// line; memory_required says how much is always enough. Without, it is allocated in the order of
  /// the stream.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

/// What a reduction reads and writes on this rank.
/// @throws argument_error if the buffers do not fit the plan
template <communicator Comm, expert_memory From, expert_memory To>
[[nodiscard]] auto checked_reduction(Comm const& comm, transfer_plan const& plan, From const& from,
                                     To& to, reduce_options const& options) {
  static_assert(element<element_of<To>> && !is_read_only<To>, "to is to be written");
  constexpr auto verb = "sparse_reduce_scatter";
  auto const source = named_tensors{"from", tensors_of(from)};
  auto const target = named_tensors{"to", tensors_of(to)};
  check_world(verb, comm, plan);
  check_sizes(verb, plan.slices(), target, source);
  check_slots(verb, source, plan.held(comm.rank()).size(), "experts that the rank holds");
  check_slots(verb, target, plan.owned_count(comm.rank()), "chunks that the rank owns");
  check_aliases(verb, source, target);
  using sum_type = accumulator_t<element_of<From const>>;
  return reduction_buffers{plan.reduction(),
                           comm.rank(),
                           source.tensors,
                           target.tensors,
                           static_cast<sum_type>(options.scale),
                           options.into};
}

/// @throws argument_error unless there is a residual for every partial, in memory of its own
template <class Buffers, class Residuals>
void check_residuals(Buffers const& of, Residuals residuals) {
  constexpr auto verb = "sparse_reduce_scatter";
  auto const named = named_tensors{"residuals", residuals};
  check_sizes(verb, 1, named, named_tensors{"from", of.partials});
  check_slots(verb, named, of.plan.held(of.me).size(), "experts that the rank holds");
  check_aliases(verb, named_tensors{"from", of.partials}, named);
  check_aliases(verb, named_tensors{"to", of.gradients}, named);
}

/// Reduces with payloads over some links.
template <class Comm, class Buffers, codec Codec>
void reduce_coded(Comm& comm, Buffers const& of, coded_links<Codec> const& links,
                  std::span<expert_tensor<float> const> residuals, reduce_options const& options) {
  static_assert(in_host_memory<Comm>, "codecs run on the host: a device has none yet");
  submit(comm, [of, links, residuals, options](auto& lane) {
    auto pass = reduction_pass{of.plan, of.me, coded_reduction_memory{of, links, residuals}};
    auto scratch = pass_scratch{lane, options.scratch, options.device_scratch};
    pass.run(lane, scratch);
  });
}

}  // namespace detail

/// Sums every expert's partial gradients over all that hold it, each chunk at its owner. The
/// transpose of sparse_all_gather: the same plan, read backwards.
///
/// A rank that passes a chunk on in a gather sums here what comes back before it sends the sum on.
/// Sums are formed in accumulator_t (of doubles double, else float), in ascending rank order of
/// those that contribute, the summing rank's own partial at its place among them; scaled and rounded
/// once, at the owner. A direct plan thus sums all holders in rank order. It goes by `plan.reduction()`,
/// which is meant where this says plan.
///
/// @param from [held, elements] per tensor: partial gradients, ascending experts
/// @param to   [owned, slice_elements] per tensor: gradients, in the layout's slot order, in any
///             element type; padding behind a shorter slice is not written
/// @pre verify accepts the plan; every rank calls with an equal plan and equal sizes; `from` and
///      `to` do not overlap; plan, buffers, lists of them and scratch live until the communicator
///      is synchronized: where it is bound to a stream, temporaries do not compile
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
  auto const of = detail::checked_reduction(comm, plan, from, to, options);
  submit(comm, [of, options](auto& lane) {
    auto pass = detail::reduction_pass{of.plan, of.me, detail::reduction_memory{of}};
    auto scratch = detail::pass_scratch{lane, options.scratch, options.device_scratch};
    pass.run(lane, scratch);
  });
}

/// The same, and what goes over some links is coded, each of them by itself: the partial or the sum
/// is encoded where it is sent, and decoded where it is summed.
///
/// @param links the codec, with equal options on every rank, and the links that it is for
/// @post `to` has that sum of what is decoded, in the same order; chunks that travel over no coded
///       link have the bits that they have without a codec
/// @cost messages as without a codec; those over coded links have the size of their payloads.
///       Scratch for the payloads that a rank sends, too, and for some 1024 elements of each
///       operand of a sum
/// @throws as without a codec; ranks_disagree if codecs or links differ
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, reduce_options const& options = {}) {
  auto const of = detail::checked_reduction(comm, plan, from, to, options);
  detail::reduce_coded(comm, of, links, {}, options);
}

/// The same with error feedback: what a payload lacks is added to what the rank sends in the next
/// step. What is lost over any number of steps is then what is left in the residuals.
///
/// @param residuals float [held, elements] per tensor: zero at first, kept between steps. They
///                  belong to the plan: when the placement changes, whoever holds other experts
///                  moves them or sets them to zero
/// @pre residuals overlap neither `from` nor `to` and live as long
/// @post the residual of what a rank sends over a coded link, if it holds the expert, is what
///       encode_with_feedback leaves; all others are untouched. A rank that only relays a piece has
///       no residual for it: what its payload lacks is lost
template <communicator Comm, expert_memory From, expert_memory To, codec Codec,
          expert_memory Residuals>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm> &&
    outlives_the_call<Residuals, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, Residuals&& residuals,
                           reduce_options const& options = {}) {
  static_assert(std::same_as<element_of<Residuals>, float> && !is_read_only<Residuals>,
                "residuals are floats, to be written");
  auto const of = detail::checked_reduction(comm, plan, from, to, options);
  detail::check_residuals(of, tensors_of(residuals));
  detail::reduce_coded(comm, of, links, tensors_of(residuals), options);
}

/// The same without a codec.
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to, uncoded,
                           reduce_options const& options = {}) {
  sparse_reduce_scatter(comm, plan, from, to, options);
}

/// A stream would read the plan when it is gone.
template <communicator Comm, expert_memory From, expert_memory To>
requires stream_bound<Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const&& plan, From&& from, To&& to,
                           reduce_options const& options = {}) = delete;
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires stream_bound<Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const&& plan, From&& from, To&& to,
                           coded_links<Codec> const& links,
                           reduce_options const& options = {}) = delete;
template <communicator Comm, expert_memory From, expert_memory To, codec Codec,
          expert_memory Residuals>
requires stream_bound<Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const&& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, Residuals&& residuals,
                           reduce_options const& options = {}) = delete;
template <communicator Comm, expert_memory From, expert_memory To>
requires stream_bound<Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const&& plan, From&& from, To&& to, uncoded,
                           reduce_options const& options = {}) = delete;

}  // namespace fssdp
