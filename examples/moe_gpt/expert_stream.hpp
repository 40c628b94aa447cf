// SPDX-License-Identifier: Apache-2.0
/// The stream that moves experts: during the computation, or while it waits.
#pragma once

#include <optional>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/stream/host_stream.hpp"

namespace moe_gpt {

/// Whether the computation goes on while experts move.
enum class overlap_rule { on, off };

/// A communicator on a stream of its own, or without one. Both are of one type, so that the
/// training is compiled once for them.
template <fssdp::communicator Comm>
class expert_stream {
 public:
  using stream_type = fssdp::host_stream;
  using memory_space = fssdp::memory_space_of<Comm>;

  /// `comm` must outlive it.
  expert_stream(Comm& comm, overlap_rule overlaps) : comm_{&comm} {
    if (overlaps == overlap_rule::on) stream_.emplace();
  }

  [[nodiscard]] fssdp::rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }

  template <class Post>
  void exchange(Post&& post) {
    if (stream_.has_value())
      fssdp::on_stream(*comm_, *stream_).exchange(std::forward<Post>(post));
    else
      comm_->exchange(std::forward<Post>(post));
  }
  template <class Work>
  void submit(Work work) {
    if (stream_.has_value())
      fssdp::on_stream(*comm_, *stream_).submit(std::move(work));
    else
      work(*comm_);
  }
  void synchronize() {
    if (stream_.has_value()) stream_->synchronize();
  }

 private:
  Comm* comm_;
  std::optional<fssdp::host_stream> stream_;
};

}  // namespace moe_gpt
