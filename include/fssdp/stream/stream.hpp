// SPDX-License-Identifier: Apache-2.0
/// Streams: in-order queues of work. The simplest runs everything in the caller, at once.
#pragma once

#include <utility>

namespace fssdp {

/// Where a communicator's buffers live.
struct host_memory {};
/// Memory of an accelerator: the host must not touch it, but enqueue what is to be done there.
struct device_memory {};

/// Work runs in the calling thread before the call returns; its errors are the call's errors.
struct inline_stream {
  template <class Work>
  void enqueue(Work&& work) const {
    std::forward<Work>(work)();
  }
  void synchronize() const {}
};

}  // namespace fssdp
