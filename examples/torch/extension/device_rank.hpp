// SPDX-License-Identifier: Apache-2.0
/// A rank whose tensors are on a device, and the stream beside that of its caller.
#pragma once

#include <c10/core/Device.h>

#include "fssdp/comm/c10d/torch_side_stream.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "group_rank.hpp"

namespace python {

/// A communicator_ref that says where its memory is.
class device_rank : public fssdp::communicator_ref {
 public:
  using stream_type = fssdp::torch_current_stream;
  using memory_space = fssdp::device_memory;

  /// @pre the rank outlives it, and its memory is a device's
  explicit device_rank(group_rank& of) : communicator_ref{of.communicator()}, of_{of} {}

  template <class Post>
  void exchange(Post&& post) const {
    communicator_ref::exchange([&](auto batch) { post(batch); });
  }
  template <class Work>
  void submit(Work work) {
    work(*this);
  }
  void synchronize() { of_.synchronize(); }

 private:
  group_rank& of_;
};

/// The same, and its stream.
class rank_beside {
 public:
  using stream_type = fssdp::torch_side_stream<device_rank>;

  rank_beside(group_rank& of, c10::Device device) : rank_{of}, stream_{rank_, device} {}
  rank_beside(rank_beside const&) = delete;
  rank_beside& operator=(rank_beside const&) = delete;

  [[nodiscard]] stream_type& stream() { return stream_; }

 private:
  device_rank rank_;
  stream_type stream_;
};

}  // namespace python
