// SPDX-License-Identifier: Apache-2.0
/// SparseAllGather: owners' parameters to replicas.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/coded_gather_memory.hpp"
#include "fssdp/collective/gather_buffers.hpp"
#include "fssdp/collective/gather_memory.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// How parameters travel.
struct gather_options {
  /// Kept between calls, so that they do not allocate; one for each lane.
  scratch_memory* scratch = nullptr;
  /// Where the communicator's memory is a device's: memory of it for what is not a list, at a cache
  /// line; memory_required says how much is always enough. Without, it is allocated in the order of
  /// the stream.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

/// What a gather reads and writes on a rank.
/// @param slots the experts that `to` is to have slots for, ascending; `shape` says which they are
/// @throws argument_error if the buffers do not fit the plan
template <expert_memory From, expert_memory To>
[[nodiscard]] auto checked_gather(char const* verb, transfer_plan const& plan, rank_id rank,
                                  From const& from, To& to, std::span<expert_id const> slots,
                                  char const* shape) {
  static_assert(!is_read_only<To>, "to is to be written");
  auto const source = named_tensors{"from", tensors_of(from)};
  auto const target = named_tensors{"to", tensors_of(to)};
  check_sizes(verb, plan.slices(), source, target);
  check_slots(verb, source, plan.owned_count(rank), "chunks that the rank owns");
  check_slots(verb, target, slots.size(), shape);
  check_aliases(verb, source, target);
  return gather_buffers{plan, rank, source.tensors, target.tensors, slots};
}

}  // namespace detail

/// Copies every expert's chunks from their owners to all that hold it. The transpose of
/// sparse_reduce_scatter.
///
/// @param from [owned, slice_elements] per tensor: the shard, in the layout's slot order
/// @param to   [foreign, elements] per tensor: the replicas, ascending experts; or
///             [held, elements]: then the rank's own experts are copied in as well, so that all
///             that it holds lies in one piece. If its element type is another, every chunk is
///             converted once, at its owner
/// @pre verify accepts the plan; every rank calls with an equal plan and equal sizes; `from` and
///      `to` do not overlap; plan, buffers, lists of them and scratch live until the communicator
///      is synchronized: where it is bound to a stream, temporaries do not compile
/// @post on every rank, each held expert has the bits of its owners, converted to the type of `to`;
///       when the gather has completed on a rank, no peer reads that rank's `from` any more
/// @cost a message per tensor of each of the rank's transfers in the plan, in the type of `to`; by
///       rounds, one exchange for each, and consecutive pieces that two ranks exchange in one are
///       one message; no packing, no allocation. Where types differ, scratch for the chunks that
///       others get and no slot of `to` has: one allocation if none is given
/// @throws argument_error before anything is sent; transport errors
/// (Paper: spAG, SparseAllGather)
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       gather_options const& options = {}) {
  using Out = element_of<From>;
  using In = element_of<To>;
  static_assert(std::is_same_v<Out, In> || (element<Out> && element<In>),
                "from and to have different element types, and there is no conversion");
  constexpr auto verb = "sparse_all_gather";
  detail::check_world(verb, comm, plan);
  auto const rank = comm.rank();
  auto const replicas = tensors_of(to);
  auto const held = plan.held(rank);
  auto const in_one_piece = !replicas.empty() && replicas.front().slots == held.size();
  auto const slots = in_one_piece ? held : plan.foreign(rank);
  auto const of =
      detail::checked_gather(verb, plan, rank, from, to, slots,
                             "experts that the rank holds and does not own; or all it holds");
  submit(comm, [of, options](auto& lane) {
    auto pass = detail::gather_pass{of.plan, of.me, detail::gather_memory{of}};
    auto scratch = detail::pass_scratch{lane, options.scratch, options.device_scratch};
    pass.run(lane, scratch);
  });
}

/// The same, and what goes over some links is coded: a chunk of which any transfer in the plan does
/// travels as its payload all the way, encoded once, at its owner, piece by piece.
///
/// @param to    [held, elements] per tensor: what the rank owns is decoded as well, so that all
///              that hold an expert compute with the same numbers. The shard keeps its own
/// @param links the codec, with equal options on every rank, and the links that it is for
/// @post every held expert has the same bits on all ranks: of a coded chunk those that are decoded,
///       converted to the type of `to`; of all others those of its owner, as without a codec.
///       Pieces begin at multiples of 256 elements of a slice: where blocks fit in there, plans
///       that code the same chunks give equal bits
/// @cost messages as without a codec; those of coded chunks have the size of their payloads.
///       Encodes each coded chunk once, decodes it on all that hold it; scratch for the payloads
///       that a rank sends or gets, and for pieces that it only relays
/// @throws as without a codec; ranks_disagree if codecs or links differ
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       coded_links<Codec> const& links, gather_options const& options = {}) {
  static_assert(element<element_of<From>> && element<element_of<To>>,
                "only floats can be encoded, and types that become floats");
  static_assert(detail::in_host_memory<Comm>, "codecs run on the host: a device has none yet");
  constexpr auto verb = "sparse_all_gather";
  detail::check_world(verb, comm, plan);
  auto const rank = comm.rank();
  auto const of =
      detail::checked_gather(verb, plan, rank, from, to, plan.held(rank),
                             "all experts that the rank holds, as its own are decoded, too");
  submit(comm, [of, links, options](auto& lane) {
    auto pass = detail::gather_pass{of.plan, of.me, detail::coded_gather_memory{of, links}};
    auto scratch = detail::pass_scratch{lane, options.scratch, options.device_scratch};
    pass.run(lane, scratch);
  });
}

/// The same without a codec.
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to, uncoded,
                       gather_options const& options = {}) {
  sparse_all_gather(comm, plan, from, to, options);
}

/// A stream would read the plan when it is gone.
template <communicator Comm, expert_memory From, expert_memory To>
requires stream_bound<Comm>
void sparse_all_gather(Comm& comm, transfer_plan const&& plan, From&& from, To&& to,
                       gather_options const& options = {}) = delete;
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires stream_bound<Comm>
void sparse_all_gather(Comm& comm, transfer_plan const&& plan, From&& from, To&& to,
                       coded_links<Codec> const& links,
                       gather_options const& options = {}) = delete;
template <communicator Comm, expert_memory From, expert_memory To>
requires stream_bound<Comm>
void sparse_all_gather(Comm& comm, transfer_plan const&& plan, From&& from, To&& to, uncoded,
                       gather_options const& options = {}) = delete;

}  // namespace fssdp
