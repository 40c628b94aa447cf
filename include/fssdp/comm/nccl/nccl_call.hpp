// SPDX-License-Identifier: Apache-2.0
/// Calls of NCCL: errors are exceptions, and all waits have a deadline.
#pragma once

#include <nccl.h>

#include <chrono>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/cuda/cuda_kernels.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// Options of communicators over NCCL; the deadline is the same on all ranks.
struct nccl_options {
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  ///< without any progress
  /// The kernels for sums and conversions, from cuda_kernels(); not needed if only bytes are moved.
  device_kernels kernels = {};
  /// Whether an nccl_ref may abort the communicator of the caller after a failure. An
  /// nccl_communicator aborts its own in any case.
  bool may_abort = false;
  /// Whether an nccl_communicator that has failed is kept for nccl_communicator::without: it is
  /// then aborted only there, or when it is destroyed. Until then, kernels that wait for a peer
  /// stay on the stream, and calls that wait for the device, such as cudaFree, block forever.
  bool may_shrink = false;
};

namespace detail {

/// @throws argument_error if the deadline is not positive
[[nodiscard]] inline nccl_options const& nccl_checked(nccl_options const& options) {
  check_deadline("nccl", options.deadline);
  return options;
}

/// @throws transport_error unless a call of NCCL has succeeded. It names no rank (-1), as NCCL does
///         not say which one has failed
inline void nccl_require(ncclResult_t code, rank_id me, char const* call) {
  if (code == ncclSuccess) return;
  throw transport_error{rank_id{-1}, text(call, " on rank ", me, ": ", ncclGetErrorString(code),
                                          " (", static_cast<int>(code), ")")};
}

/// Waits until the host part of a nonblocking NCCL call has finished; its work is then on the
/// stream. Returns the result. It also waits if the call has returned success, as ncclCommSplit and
/// ncclCommWindowRegister do
/// (2.28) while they are in progress.
/// @param late() is called when the deadline has passed, and throws
template <class Late>
[[nodiscard]] ncclResult_t nccl_settled(ncclComm_t comm, ncclResult_t code, rank_id me,
                                        std::chrono::milliseconds deadline, Late late) {
  auto pace = wait_pace{};
  auto const until = end_of(deadline);
  while (code == ncclSuccess || code == ncclInProgress) {
    nccl_require(ncclCommGetAsyncError(comm, &code), me, "ncclCommGetAsyncError");
    if (code != ncclInProgress) break;
    if (std::chrono::steady_clock::now() > until) late();
    pace.rest();
  }
  return code;
}

}  // namespace detail
}  // namespace fssdp
