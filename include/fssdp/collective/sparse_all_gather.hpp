// SPDX-License-Identifier: Apache-2.0
/// SparseAllGather: owners' parameters to replicas.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
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

/// How parameters travel.
struct gather_options {
  /// Kept between calls, so that they do not allocate; one for each communicator.
  scratch_memory* scratch = nullptr;
  /// Where the communicator's memory is a device's: memory of it for what is not a list, at a cache
  /// line; memory_required says how much is always enough. Without, it is allocated in the order of
  /// the stream.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

struct gather_buffers;

/// A gather on one rank, ready to run: what it needs besides the memory of parameters and the
/// scratch is in it.
class gather_call {
 public:
  /// @param find from types of `from` to those of `to`
  gather_call(transfer_plan const& plan, rank_id rank, tensor_list from, tensor_list to,
              find_conversion find, gather_options const& options)
      : plan_{plan},
        rank_{rank},
        from_{std::move(from)},
        to_{std::move(to)},
        find_{find},
        options_{options} {}

  /// @throws argument_error unless the buffers fit the plan
  void check(int ranks) const;
  /// The same where all experts that the rank holds must have slots.
  void check_coded(int ranks) const;

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }
  void run(communicator_ref const& comm) const;
  void run_coded(communicator_ref const& comm, payload_codec const& coder, link_class on) const;

 private:
  static constexpr auto name = "sparse_all_gather";

  /// The experts that `to` has slots for.
  [[nodiscard]] std::span<expert_id const> slots() const;
  void check_buffers(std::span<expert_id const> slots, char const* shape) const;
  [[nodiscard]] gather_buffers buffers(std::span<expert_id const> slots) const;

  transfer_plan plan_;
  rank_id rank_;
  tensor_list from_;
  tensor_list to_;
  find_conversion find_;
  gather_options options_;
};

template <communicator Comm, expert_memory From, expert_memory To>
[[nodiscard]] gather_call make_gather(Comm const& comm, transfer_plan const& plan, From& from,
                                      To& to, gather_options const& options) {
  using Source = element_of<From>;
  using Target = element_of<To>;
  static_assert(!is_read_only<To>, "to is to be written");
  static_assert(std::is_same_v<Source, Target> || (element<Source> && element<Target>),
                "from and to have different element types, and there is no conversion");
  return {plan_of_call(comm, plan),          comm.rank(), tensor_list{from}, tensor_list{to},
          &known_conversion<Source, Target>, options};
}

}  // namespace detail

/// Copies every expert's chunks from their owners to all that hold it. The transpose of
/// sparse_reduce_scatter.
///
/// @param from [owned, slice_elements] per tensor: the shard, in the layout's slot order
/// @param to   [remote, elements] per tensor: the replicas, ascending experts; or
///             [materialized, elements]: then the rank's own experts are copied in as well, so that all
///             that it holds lies in one piece. If its element type is another, every chunk is
///             converted once, at its owner
/// @pre verify accepts the plan; every rank calls with an equal plan and equal sizes; `from` and
///      `to` do not overlap; memory and scratch live until the communicator is synchronized: where
///      it is bound to a stream, a temporary buffer that owns its memory does not compile. The plan,
///      views and lists of views may be temporaries: the call keeps its own
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
  auto call = detail::make_gather(comm, plan, from, to, options);
  call.check(comm.size());
  submit(comm, std::move(call));
}

/// The same, and what goes over some links is coded: a chunk of which any transfer in the plan does
/// travels as its payload all the way, encoded once, at its owner, piece by piece.
///
/// @param to    [materialized, elements] per tensor: what the rank owns is decoded as well, so that all
///              that hold an expert compute with the same numbers. The shard keeps its own
/// @param links the codec, with equal options on every rank, and the links that it is for
/// @post every held expert has the same bits on all ranks: of a coded chunk those that are decoded,
///       converted to the type of `to`; of all others those of its owner, as without a codec.
///       Pieces begin at multiples of 256 elements of a slice: where blocks fit in there, plans
///       that code the same chunks give equal bits
/// @cost messages as without a codec; those of coded chunks have the size of their payloads.
///       Encodes each coded chunk once, decodes it on all that hold it; scratch for the payloads
///       that a rank sends or gets, and for pieces that it only relays. On a device either is a
///       launch for each piece and tensor; codecs there are the library's (coding_communicator)
/// @throws as without a codec; ranks_disagree if codecs or links differ
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       coded_links<Codec> const& links, gather_options const& options = {}) {
  using Source = element_of<From>;
  using Target = element_of<To>;
  static_assert(element<Source> && element<Target>,
                "only floats can be encoded, and types that become floats");
  static_assert(detail::can_code<Comm, Codec>,
                "this codec has no kernels: on devices int8_codec, fp8_e4m3_codec, fp8_e5m2_codec "
                "and bf16_codec have");
  auto call = detail::make_gather(comm, plan, from, to, options);
  call.check_coded(comm.size());
  submit(comm, detail::coded_call{std::move(call), links,
                                  &detail::payload_codec::make<Source, Target, Codec>});
}

/// The same without a codec.
/// @cost as of the first
template <communicator Comm, expert_memory From, expert_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to, uncoded,
                       gather_options const& options = {}) {
  sparse_all_gather(comm, plan, from, to, options);
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/sparse_all_gather_inl.hpp"
#endif
