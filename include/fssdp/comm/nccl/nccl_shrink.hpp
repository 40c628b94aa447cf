// SPDX-License-Identifier: Apache-2.0
/// An NCCL communicator between the remaining ranks when some are lost.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_watch.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/comm/nccl/nccl_call.hpp"
#include "fssdp/comm/nccl/nccl_context.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The lost ranks, ascending, as NCCL expects them.
/// @throws argument_error if there are none; as checked_lost
[[nodiscard]] inline std::vector<int> checked_numbers(std::span<rank_id const> lost, rank_id me,
                                                      int size) {
  require(!lost.empty(), "without: no ranks; expected those that are lost");
  auto ranks = std::vector<int>{};
  for (auto const rank : checked_lost(lost, me, size)) ranks.push_back(rank.value());
  return ranks;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
/// Collective among the remaining ranks. If the communicator has failed, its work in progress ends,
/// and with it the work on the stream; otherwise the stream is empty.
/// @param lost  as returned by checked_numbers
/// @return a communicator that may still be in progress
/// @throws deadline_exceeded if not all come, transport_error: then the communicator is aborted
[[nodiscard]] inline ncclComm_t nccl_shrunk(nccl_context& context, std::vector<int> lost,
                                            ncclConfig_t config) {
  struct arguments {
    std::vector<int> lost;
    ncclComm_t child = nullptr;
  };
  auto with = std::make_unique<arguments>(arguments{std::move(lost)});
  auto const me = context.me();
  auto const deadline = context.options().deadline;
  auto const call = "ncclCommShrink";
  auto const has_failed = context.has_failed();
  try {
    auto const code =
        ncclCommShrink(context.comm(), with->lost.data(), static_cast<int>(with->lost.size()),
                       &with->child, &config, has_failed ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT);
    auto const ended = nccl_settled(context.comm(), code, me, deadline,
                                    [&] { throw not_all_come(me, call, deadline); });
    if (with->child == nullptr) {  // otherwise an error may be an earlier one
      nccl_require(ended, me, call);
      throw transport_error{rank_id{-1}, text(call, " on rank ", me, " gives no communicator")};
    }
    drain(context.stream(), deadline);
    if (query(context.stream()) == cudaErrorNotReady)
      throw deadline_exceeded{
          rank_id{-1}, text(call, " on rank ", me, ": what was on the stream has not ended within ",
                            deadline.count(), " ms")};
  } catch (...) {
    auto const waits_for_graphs = context.watch().has_captured();
    context.abort(std::current_exception());
    if (waits_for_graphs) {
      (void)with.release();  // leaked, as NCCL may use it until another thread has aborted the call
    } else if (with->child != nullptr) {
      ncclCommAbort(with->child);
    }
    throw;
  }
  return with->child;
}
#else
/// @throws argument_error
[[nodiscard]] inline ncclComm_t nccl_shrunk(nccl_context&, std::vector<int> const&, ncclConfig_t) {
  refuse({"without: NCCL ", NCCL_MAJOR, '.', NCCL_MINOR,
          "; expected 2.27 or later, or a new nccl_communicator between the ranks that are left, "
          "from a new ncclUniqueId"});
}
#endif

}  // namespace fssdp::detail
