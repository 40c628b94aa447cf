// SPDX-License-Identifier: Apache-2.0
/// A double of CUDA's runtime and of NCCL: threads and host memory behind the vendors' headers.
///
/// Streams are in-order worker threads. NCCL's rules are enforced, and who breaks them is told by
/// `violations`: messages between two ranks match in order, in equal sizes, in the same group at
/// both ends; a group sends nothing that it receives; nothing is called while a communicator that
/// does not block is still in progress; windows are memory of NCCL's, all ranks open them in the
/// same order, in equal sizes, and close them before it goes; what is never matched is told after a
/// while. A communicator is freed only when no graph needs it: so long ncclCommAbort does not come
/// back.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "fssdp/comm/cuda/cuda_kernels.hpp"

namespace gpu_double {

/// What becomes of the groups of rank 0: a back end that does one thing wrong.
enum class mutation {
  none,
  other_order,   ///< two messages of different sizes to one peer change places
  two_groups,    ///< the first message comes in a group of its own
  lost_message,  ///< the last one that is sent is left out
  relay,         ///< something that is received is sent on at once
  no_window      ///< rank 0 opens no window
};

struct settings {
  int devices = 8;
  std::chrono::milliseconds report_after = std::chrono::seconds{5};  ///< unmatched messages
  std::size_t memory = std::size_t{1}
                       << 40U;      ///< bytes of each device, and pinned ones of the host
  int polls = 2;                    ///< how often what does not block says that it is in progress
  bool only_device_memory = false;  ///< messages, copies and sums of memory of CUDA's alone
  mutation back_end = mutation::none;
  bool peer_access = true;       ///< whether devices can read each other's memory
  bool windows = true;           ///< whether communicators have any
  bool default_streams = false;  ///< whether CUDA's own may be used: who forgets a stream is told
  /// Counts what the calling thread allocates: streams of the double do not count.
  long& (*allocations)() = nullptr;
};

/// Begins again: no violations, no faults, no device that reads another's memory.
void reset(settings const& as = {});
[[nodiscard]] settings const& current();

/// What has been done that the real libraries would not forgive.
[[nodiscard]] std::vector<std::string> violations();
void report(std::string const& violation);

/// From its next group on, this rank's communicators report an error and move nothing.
/// @param error  a ncclResult_t: who tests devices without NCCL needs no header of it
void inject_error(int rank, int error);
/// The error to report, or ncclSuccess, which is 0.
[[nodiscard]] int injected_error(int rank);

/// Allocations of cudaMalloc, cudaMallocAsync and cudaHostAlloc that have not been freed.
[[nodiscard]] std::size_t live_allocations();
/// How often cudaMallocAsync has been called.
[[nodiscard]] int async_allocations();
/// Frees the memory of devices, and pinned memory, that nobody has freed, where a test has it given
/// up.
/// @return how many allocations that were
[[nodiscard]] int free_what_is_left();
/// How often ncclAllGather has been called, by all ranks together.
[[nodiscard]] int all_gathers();
/// Communicators of NCCL's that have not been freed.
[[nodiscard]] int live_communicators();
void close_peers();
/// Whether a device can read it: its own memory, or pinned memory of the host.
[[nodiscard]] bool is_device_memory(void const* begin, std::size_t bytes);

/// Reports unless kernels and copies on a stream may use this address: memory of another device has
/// to be opened before, by cudaDeviceEnablePeerAccess or, of a pool, by cudaMemPoolSetAccess;
/// memory of the host has to be pinned, with only_device_memory.
void check_access(cudaStream_t stream, void const* address);
[[nodiscard]] int device_of(cudaStream_t stream);
/// No device has kernels: who launches one that has not been loaded is told by `violations`.
void unload_kernels();

/// How often the host has waited for a device, or asked whether it has finished: by
/// cudaStreamSynchronize, cudaStreamQuery, cudaEventSynchronize, cudaDeviceSynchronize, cudaFree.
/// Not by cudaEventQuery: a look at whether an earlier exchange has run, whatever the answer.
[[nodiscard]] int host_waits();
/// How often that look has found that it has not: who looks until it has is waiting.
[[nodiscard]] int looks_in_vain();
/// Bytes of copies from device to device that have been enqueued, whatever makes them.
[[nodiscard]] std::size_t copied_bytes();
void count_copied(std::size_t bytes);
/// From now on cudaStreamWaitEvent does nothing on this stream: events are lost.
void lose_waits_of(cudaStream_t stream);

/// As long as it lives, what its thread allocates is not counted.
class not_counted {
 public:
  not_counted() {
    if (current().allocations != nullptr) before_ = current().allocations();
  }
  not_counted(not_counted const&) = delete;
  not_counted& operator=(not_counted const&) = delete;
  ~not_counted() {
    if (current().allocations != nullptr) current().allocations() = before_;
  }

 private:
  long before_ = 0;
};

/// Puts work on a stream, or into the graph that it captures.
[[nodiscard]] cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// How many kernels of the library have been launched.
[[nodiscard]] int launches();
/// The kernels of the library: loops in the order of the stream; on a device, its own.
[[nodiscard]] fssdp::device_kernels kernels();

}  // namespace gpu_double
