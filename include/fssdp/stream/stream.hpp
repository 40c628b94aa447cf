// SPDX-License-Identifier: Apache-2.0
/// Streams: in-order queues of work. The simplest one runs work at once, in the caller.
#pragma once

#include <utility>

namespace fssdp {

/// The kinds of memory of a communicator's buffers.
struct host_memory {};
/// Memory of an accelerator: the host must not access it, only enqueue work that does.
struct device_memory {};

/// Work runs in the calling thread before the call returns; its exceptions leave the call.
struct inline_stream {
  template <class Work>
  void enqueue(Work&& work) const {
    std::forward<Work>(work)();
  }
  void synchronize() const {}
};

}  // namespace fssdp
