// SPDX-License-Identifier: Apache-2.0
/// SparseAllGather: copies parameters from their owners to the replicas.
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

/// How a gather uses memory.
struct gather_options {
  /// Kept between calls, so that they do not allocate; one for each communicator.
  scratch_memory* scratch = nullptr;
  /// For communicators that work on device memory: device memory for what is not a list, aligned to
  /// a cache line; memory_required says how much is always enough. If empty, it is allocated in
  /// stream order.
  std::span<std::byte> device_scratch = {};
};

namespace detail {

struct gather_buffers;

/// A gather on one rank, ready to run. It keeps all that it needs but the memory of parameters and
/// the scratch.
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
  /// As check; in addition, `to` must have slots for all experts that the rank holds.
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
  static_assert(!is_read_only<To>, "expected a `to` that can be written");
  static_assert(std::is_same_v<Source, Target> || (element<Source> && element<Target>),
                "from and to have different element types; expected types that convert");
  return {plan_of_call(comm, plan),          comm.rank(), tensor_list{from}, tensor_list{to},
          &known_conversion<Source, Target>, options};
}

}  // namespace detail

/// Copies every expert from its owners to all ranks that hold it. The transpose of
/// sparse_reduce_scatter.
///
/// @param from [owned, slice_elements] per tensor: the shard, in the layout's slot order
/// @param to   [remote, elements] per tensor: the replicas, ascending experts; or
///             [materialized, elements]: then the rank's own experts are copied, too, and all that
///             it holds is contiguous. If its element type differs from that of `from`, the owner
///             converts every chunk once
/// @pre verify accepts the plan; every rank calls with an equal plan and equal sizes; `from` and
///      `to` do not overlap. Memory and scratch live until the communicator is synchronized; on a
///      communicator that is bound to a stream, a temporary buffer that owns its memory does not
///      compile. The plan, views and lists of views may be temporaries: the call keeps its own
/// @post on every rank, each held expert has the bits of its owners, converted to the type of `to`.
///       When the gather has completed on a rank, no peer reads that rank's `from` any more
/// @cost one message per transfer of this rank and tensor, in the type of `to`; in plans with
///       rounds, one exchange per round, in which consecutive pieces between two ranks are one
///       message. No packing, no allocation. Where types differ, scratch for the converted chunks
///       that this rank sends and has no slot for in `to`: one allocation if none is given
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

/// The same, coded over some links. A chunk is coded if any of its transfers goes over such a link:
/// the owner encodes it once, piece by piece, and it travels as its payload all the way.
///
/// @param to    [materialized, elements] per tensor: the rank's own experts are decoded, too, so
///              that all ranks compute with the same numbers. `from` keeps the exact values
/// @param links the codec, with equal options on every rank, and the class of links to code
/// @post every held expert has the same bits on all ranks: coded chunks have the decoded values,
///       converted to the type of `to`; all others the bits of their owner, as without a codec.
///       Pieces begin at multiples of 256 elements of a slice: if that is a multiple of the codec's
///       block, plans that code the same chunks give equal bits
/// @cost messages as without a codec; those of coded chunks have the size of their payloads. Each
///       coded chunk is encoded once, and decoded on all ranks that hold it. Scratch for the
///       payloads that a rank sends or receives, and for pieces that it only relays. On a device,
///       one launch for each piece and tensor to encode and to decode; only the library's codecs
///       work there
///       (coding_communicator)
template <communicator Comm, expert_memory From, expert_memory To, codec Codec>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       coded_links<Codec> const& links, gather_options const& options = {}) {
  using Source = element_of<From>;
  using Target = element_of<To>;
  static_assert(element<Source> && element<Target>,
                "only floats, and types that convert to floats, can be encoded");
  static_assert(detail::can_code<Comm, Codec>,
                "this codec has no device kernels; expected int8_codec, fp8_e4m3_codec, "
                "fp8_e5m2_codec or bf16_codec");
  auto call = detail::make_gather(comm, plan, from, to, options);
  call.check_coded(comm.size());
  submit(comm, detail::coded_call{std::move(call), links,
                                  &detail::payload_codec::make<Source, Target, Codec>});
}

/// The same with `uncoded` as links, for callers that choose: without a codec.
/// @cost as the first overload
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
