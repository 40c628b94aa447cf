// SPDX-License-Identifier: Apache-2.0
/// Binds a communicator of devices to the stream on which its caller computes.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"

namespace fssdp {

/// A side_stream_communicator. Submitted work runs after all that the caller has enqueued so far.
/// The caller's stream continues, and waits for the communicator only in `await`. The host does not
/// wait.
/// @cost two events per submitted work, and one per wait
template <device_communicator Comm>
requires std::same_as<stream_type_of<Comm>, cudaStream_t>
class cuda_side_stream {
 public:
  using stream_type = cudaStream_t;
  using memory_space = device_memory;

  /// @pre communicator and stream outlive it, and are of the current device
  /// @throws transport_error
  cuda_side_stream(Comm& comm, cudaStream_t caller)
      : comm_{&comm}, caller_{caller}, is_enqueued_{detail::make_cuda_event(comm.rank())} {
    for (auto& event : has_run_) event = detail::make_cuda_event(comm.rank());
  }

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] cudaStream_t stream() const { return comm_->stream(); }

  template <class Post>
  void exchange(Post&& post) {
    submit([&post](Comm& comm) { comm.exchange(post); });
  }
  /// @throws exceptions of the work; transport_error
  template <class Work>
  void submit(Work work) {
    record(is_enqueued_, caller_);
    wait(comm_->stream(), is_enqueued_);
    work(*comm_);
    record(has_run_[(position_ + 1) % has_run_.size()], comm_->stream());
    ++position_;
  }
  template <class Work>
  void prepare(Work work) {
    work(*comm_);
  }
  void synchronize() { fssdp::synchronize(*comm_); }
  /// Runs on the host, at once; `position` does not count it.
  void gather_values(std::span<std::byte const> mine,
                     std::span<std::byte> all) requires gathering_communicator<Comm> {
    comm_->gather_values(mine, all);
  }

  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// @pre `position()` has returned this position or a later one
  /// @throws transport_error
  void await(std::uint64_t position) {
    if (position != 0) wait(caller_, has_run_[position % has_run_.size()]);
  }
  /// @throws transport_error
  void clear(std::span<std::byte> memory) {
    if (memory.empty()) return;
    detail::cuda_require(cudaMemsetAsync(memory.data(), 0, memory.size(), caller_), rank(),
                         "cudaMemsetAsync");
  }

 private:
  void record(detail::cuda_event const& event, cudaStream_t stream) const {
    detail::cuda_require(cudaEventRecord(event.get(), stream), rank(), "cudaEventRecord");
  }
  void wait(cudaStream_t stream, detail::cuda_event const& event) const {
    detail::cuda_require(cudaStreamWaitEvent(stream, event.get(), 0), rank(),
                         "cudaStreamWaitEvent");
  }

  Comm* comm_;
  cudaStream_t caller_;
  detail::cuda_event is_enqueued_;
  std::array<detail::cuda_event, 32> has_run_;  // of the last positions; later ones cover older
  std::uint64_t position_ = 0;
};

/// `comm` on a side stream of `stream`: for a materializer over devices.
///
///     auto transfers = comm.duplicate(gathers.get());        // on its own stream
///     auto comm = fssdp::on_side_stream(transfers, compute);
///     auto arena = fssdp::cuda_memory{bytes};
///     auto pools = std::pmr::monotonic_buffer_resource{
///         arena.bytes().data(), bytes, std::pmr::null_memory_resource()};
///     auto layers = fssdp::materializer{
///         communicator, {layouts, sizes, weights, gradients}, {.placement = solve},
///         {.replica_slots = 6, .partial_slots = 9, .memory = &pools}};
///     layers.acquire(l);  // work that is enqueued on `compute` from here on can read the experts
///
/// @cost creates events; no messages
/// @throws transport_error
template <device_communicator Comm>
[[nodiscard]] cuda_side_stream<Comm> on_side_stream(Comm& comm, cudaStream_t stream) {
  return {comm, stream};
}

}  // namespace fssdp
