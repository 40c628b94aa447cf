// SPDX-License-Identifier: Apache-2.0
/// The collectives for buffers whose element types are known at run time only, as those of a host
/// framework are. (reshard, move_slots, bytes_of, memory_required, gathered_bytes and reduced_bytes
/// take such types, too, where they are.)
///
///     auto const weights = std::array{
///         fssdp::any_tensor{.type = fssdp::dtype::bf16, .data = w, .slots = 2, .elements = 4096},
///         fssdp::any_tensor{.type = fssdp::dtype::fp32, .data = b, .slots = 2, .elements = 64}};
///     fssdp::sparse_all_gather(comm, plan, weights, replicas);
///
/// Every ordinary buffer of an element type may stand in for one of the two, as well.
#pragma once

#include <concepts>
#include <utility>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/link_coding.hpp"
#include "fssdp/codec/runtime_payload.hpp"
#include "fssdp/collective/coded_call.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

/// Whether the types of one buffer or the other are known at run time only.
template <class From, class To>
concept any_pair = tensor_memory<From> && tensor_memory<To> &&(any_memory<From> || any_memory<To>);

/// Refuses buffers whose elements have no dtype.
template <tensor_memory Buffer>
[[nodiscard]] tensor_list list_elements(Buffer& buffer) {
  if constexpr (!any_memory<Buffer>)
    static_assert(element<element_of<Buffer>>,
                  "the other buffer has dtypes, which this one's type is none of");
  return tensor_list{buffer};
}

template <communicator Comm, class From, class To>
[[nodiscard]] gather_call make_any_gather(Comm const& comm, transfer_plan const& plan, From& from,
                                          To& to, gather_options const& options) {
  static_assert(!is_read_only<To>, "to is to be written");
  return {plan_of_call(comm, plan), comm.rank(),         list_elements(from),
          list_elements(to),        &runtime_conversion, options};
}

/// @throws argument_error if the buffers do not fit the plan
template <communicator Comm, class From, class To>
[[nodiscard]] reduction_call make_any_reduction(Comm const& comm, transfer_plan const& plan,
                                                From& from, To& to, reduce_options const& options,
                                                tensor_list const* residuals = nullptr) {
  static_assert(!is_read_only<To>, "to is to be written");
  auto call = reduction_call{plan_of_call(comm, plan), comm.rank(),     list_elements(from),
                             list_elements(to),        &runtime_sum_of, options};
  call.check(comm.size(), residuals);
  if (residuals != nullptr) call.keep_residuals(*residuals);
  return call;
}

template <class Call, communicator Comm, codec Codec>
void submit_coded(Comm& comm, Call call, coded_links<Codec> const& links) {
  static_assert(can_code<Comm, Codec>,
                "this codec has no kernels: on devices int8_codec, fp8_e4m3_codec, fp8_e5m2_codec "
                "and bf16_codec have");
  submit(comm, coded_call{std::move(call), links, &make_runtime_payload<Codec>});
}

}  // namespace detail

/// As sparse_all_gather of buffers whose types are known. Each tensor has types of its own, and is
/// converted if that of `to` is another one.
/// @param from, to any_tensor, lists of it, or one of them a buffer of an element type
/// @post the bits that buffers of the same types, known to the compiler, would get
/// @cost as there; a buffer of more than six tensors takes an allocation, as there
/// @throws as there; argument_error if a dtype is none
template <communicator Comm, tensor_memory From, tensor_memory To>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       gather_options const& options = {}) {
  auto call = detail::make_any_gather(comm, plan, from, to, options);
  call.check(comm.size());
  submit(comm, std::move(call));
}
template <communicator Comm, tensor_memory From, tensor_memory To, codec Codec>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       coded_links<Codec> const& links, gather_options const& options = {}) {
  auto call = detail::make_any_gather(comm, plan, from, to, options);
  call.check_coded(comm.size());
  detail::submit_coded(comm, std::move(call), links);
}
template <communicator Comm, tensor_memory From, tensor_memory To>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to, uncoded,
                       gather_options const& options = {}) {
  sparse_all_gather(comm, plan, from, to, options);
}

/// The same with a codec that is chosen at run time, or with none.
/// @cost that of the codec
template <communicator Comm, tensor_memory From, tensor_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                       link_coding const& coding, gather_options const& options = {}) {
  if (!coding.codes()) return sparse_all_gather(comm, plan, from, to, options);
  auto call = detail::make_any_gather(comm, plan, from, to, options);
  call.check_coded(comm.size());
  submit(comm, [call = std::move(call), coding](auto& inner) {
    call.run_coded(communicator_ref{inner}, coding.coder(), coding.on());
  });
}

/// As sparse_reduce_scatter of buffers whose types are known. Each tensor is summed in
/// accumulator_of its type in `from`, and becomes its type in `to`.
/// @cost as of the function for types that are known
/// @throws argument_error before anything is sent; transport errors
template <communicator Comm, tensor_memory From, tensor_memory To>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           reduce_options const& options = {}) {
  submit(comm, detail::make_any_reduction(comm, plan, from, to, options));
}
template <communicator Comm, tensor_memory From, tensor_memory To, codec Codec>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, reduce_options const& options = {}) {
  detail::submit_coded(comm, detail::make_any_reduction(comm, plan, from, to, options), links);
}
template <communicator Comm, tensor_memory From, tensor_memory To, codec Codec,
          expert_memory Residuals>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> &&
    outlives_the_call<To, Comm> && outlives_the_call<Residuals, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           coded_links<Codec> const& links, Residuals&& residuals,
                           reduce_options const& options = {}) {
  static_assert(std::same_as<element_of<Residuals>, float> && !is_read_only<Residuals>,
                "residuals are floats, to be written");
  auto const left = detail::tensor_list{residuals};
  detail::submit_coded(comm, detail::make_any_reduction(comm, plan, from, to, options, &left),
                       links);
}
template <communicator Comm, tensor_memory From, tensor_memory To>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to, uncoded,
                           reduce_options const& options = {}) {
  sparse_reduce_scatter(comm, plan, from, to, options);
}

/// The same with a codec that is chosen at run time, or with none.
/// @cost that of the codec
template <communicator Comm, tensor_memory From, tensor_memory To>
requires outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void sparse_reduce_scatter(Comm& comm, transfer_plan const& plan, From&& from, To&& to,
                           link_coding const& coding, reduce_options const& options = {}) {
  if (!coding.codes()) return sparse_reduce_scatter(comm, plan, from, to, options);
  auto call = detail::make_any_reduction(comm, plan, from, to, options);
  submit(comm, [call = std::move(call), coding](auto& inner) {
    call.run_coded(communicator_ref{inner}, coding.coder(), coding.on());
  });
}

/// As transfer_between of buffers whose types are known. Each tensor has types of its own, and is
/// converted where it is sent from if that of `to` is another one.
/// @cost as there
/// @throws as there; argument_error if a dtype is none
template <communicator Comm, tensor_memory From, tensor_memory To>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void transfer_between(Comm& comm, redistribution const& plan, From&& from, To&& to,
                      gather_options const& options = {}) {
  static_assert(!is_read_only<To>, "to is to be written");
  auto call = detail::between_call{plan,
                                   comm.rank(),
                                   detail::list_elements(from),
                                   detail::list_elements(to),
                                   &detail::runtime_conversion,
                                   options};
  call.check(comm.size());
  submit(comm, std::move(call));
}

}  // namespace fssdp
