// SPDX-License-Identifier: Apache-2.0
/// The collectives for buffers whose element types are known only at run time, as in a host
/// framework. (reshard, move_slots, bytes_of, memory_required, gathered_bytes and reduced_bytes
/// accept such buffers in their own headers.)
///
///     auto const weights = std::array{
///         fssdp::any_tensor{.type = fssdp::dtype::bf16, .data = w, .slots = 2, .elements = 4096},
///         fssdp::any_tensor{.type = fssdp::dtype::fp32, .data = b, .slots = 2, .elements = 64}};
///     fssdp::sparse_all_gather(comm, plan, weights, replicas);
///
/// One of the two buffers may also be an ordinary buffer, whose element type is known at compile
/// time.
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

/// Whether the element types of either buffer are known only at run time.
template <class From, class To>
concept any_pair = tensor_memory<From> && tensor_memory<To> &&(any_memory<From> || any_memory<To>);

/// Rejects buffers whose element type has no dtype.
template <tensor_memory Buffer>
[[nodiscard]] tensor_list list_elements(Buffer& buffer) {
  if constexpr (!any_memory<Buffer>)
    static_assert(element<element_of<Buffer>>,
                  "the other buffer has dtypes; expected an element type that has one, too");
  return tensor_list{buffer};
}

template <communicator Comm, class From, class To>
[[nodiscard]] gather_call make_any_gather(Comm const& comm, transfer_plan const& plan, From& from,
                                          To& to, gather_options const& options) {
  static_assert(!is_read_only<To>, "expected a `to` that can be written");
  return {plan_of_call(comm, plan), comm.rank(),         list_elements(from),
          list_elements(to),        &runtime_conversion, options};
}

/// @throws argument_error if the buffers do not fit the plan
template <communicator Comm, class From, class To>
[[nodiscard]] reduction_call make_any_reduction(Comm const& comm, transfer_plan const& plan,
                                                From& from, To& to, reduce_options const& options,
                                                tensor_list const* residuals = nullptr) {
  static_assert(!is_read_only<To>, "expected a `to` that can be written");
  auto call = reduction_call{plan_of_call(comm, plan), comm.rank(),     list_elements(from),
                             list_elements(to),        &runtime_sum_of, options};
  call.check(comm.size(), residuals);
  if (residuals != nullptr) call.keep_residuals(*residuals);
  return call;
}

template <class Call, communicator Comm, codec Codec>
void submit_coded(Comm& comm, Call call, coded_links<Codec> const& links) {
  static_assert(can_code<Comm, Codec>,
                "this codec has no device kernels; expected int8_codec, fp8_e4m3_codec, "
                "fp8_e5m2_codec or bf16_codec");
  submit(comm, coded_call{std::move(call), links, &make_runtime_payload<Codec>});
}

}  // namespace detail

/// As sparse_all_gather of buffers whose types are known at compile time. Each tensor has its own
/// types, and is converted if they differ between `from` and `to`.
/// @param from, to any_tensor, lists of it, or one of them an ordinary buffer
/// @post the same bits as with buffers of the same types that are known at compile time
/// @cost as sparse_all_gather; one more allocation for a buffer of more than six tensors
/// @throws as sparse_all_gather; argument_error if a dtype is invalid
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

/// As sparse_reduce_scatter of buffers whose types are known at compile time. Each tensor is summed
/// in accumulator_of its type in `from`, and rounded to its type in `to`.
/// @cost as sparse_reduce_scatter
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
                "expected residuals of floats that can be written");
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

/// As transfer_between of buffers whose types are known at compile time. Each tensor has its own
/// types, and is converted by the sender if they differ between `from` and `to`.
/// @cost as transfer_between
/// @throws as transfer_between; argument_error if a dtype is invalid
template <communicator Comm, tensor_memory From, tensor_memory To>
requires detail::any_pair<From, To> && outlives_the_call<From, Comm> && outlives_the_call<To, Comm>
void transfer_between(Comm& comm, redistribution const& plan, From&& from, To&& to,
                      gather_options const& options = {}) {
  static_assert(!is_read_only<To>, "expected a `to` that can be written");
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
