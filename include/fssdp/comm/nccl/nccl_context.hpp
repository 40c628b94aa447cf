// SPDX-License-Identifier: Apache-2.0
/// A communicator of NCCL and a stream, and whether they have failed.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_watch.hpp"
#include "fssdp/comm/nccl/nccl_call.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Calls NCCL, and waits for the stream with error checks. After the first failure nothing is
/// enqueued any more; if the communicator may be aborted, it is, so that the work on the stream
/// ends.
class nccl_context {
 public:
  static constexpr std::size_t staged_row = 4096;  // bytes
  static constexpr std::size_t pinned_row = 512;
  static constexpr auto drain_time = std::chrono::milliseconds{200};

  /// Allocates staging memory; freeing it waits for the device.
  nccl_context(ncclComm_t comm, cudaStream_t stream, rank_id me, int size,
               nccl_options const& options)
      : comm_{comm},
        stream_{stream},
        me_{me},
        size_{static_cast<std::size_t>(size)},
        options_{options},
        watch_{me},
        staging_{allocate_on_device(me, (size_ + 1) * staged_row, "the rows of a nccl_ref")},
        pinned_{allocate_pinned(me, (size_ + 1) * pinned_row, "the rows of a nccl_ref")} {}
  nccl_context(nccl_context const&) = delete;
  nccl_context& operator=(nccl_context const&) = delete;
  /// If a communicator that was not aborted has a kernel that waits forever, freeing memory would
  /// block, so it is leaked.
  ~nccl_context() {
    if (!has_failed() || comm_ == nullptr || query(stream_) != cudaErrorNotReady) return;
    (void)staging_.release();
    (void)pinned_.release();
  }

  [[nodiscard]] ncclComm_t comm() const { return comm_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] rank_id me() const { return me_; }
  [[nodiscard]] nccl_options const& options() const { return options_; }
  [[nodiscard]] cuda_watch& watch() { return watch_; }
  /// Device memory for a row to send, and one from each rank.
  [[nodiscard]] std::span<std::byte> staging() const {
    return {staging_.get(), (size_ + 1) * staged_row};
  }
  /// The same in pinned host memory, with shorter rows.
  [[nodiscard]] std::span<std::byte> pinned() const {
    return {pinned_.get(), (size_ + 1) * pinned_row};
  }
  [[nodiscard]] bool has_failed() const { return failure_.has_failed(); }

  /// @throws poisoned_stream if an earlier call has failed, or the communicator was closed
  void check() const {
    failure_.check(me_);
    if (comm_ == nullptr)
      throw poisoned_stream{text("rank ", me_, ": this communicator has been closed")};
  }

  /// Runs `work`; if it throws, the communicator has failed.
  template <class Work>
  void guarded(Work work) {
    check();
    try {
      work();
    } catch (...) {
      if (!has_failed()) fail(std::current_exception());
      throw;
    }
  }
  /// Marks the communicator as failed by an error that peers detect as well. As they may still need
  /// work in progress, only work that does not end soon is aborted.
  void give_up(std::exception_ptr failure) noexcept {
    failure_.set(std::move(failure));
    drain(stream_, drain_time);
    if (options_.may_abort && query(stream_) == cudaErrorNotReady) abort_and_drain();
  }
  /// Marks the communicator as failed, if it was not, and aborts it, whatever the options.
  void abort(std::exception_ptr failure) noexcept {
    if (!has_failed()) failure_.set(std::move(failure));
    abort_and_drain();
  }
  /// Waits until NCCL has enqueued a call. Does not wait for the stream.
  /// @throws transport_error; deadline_exceeded if a peer does not connect
  void settle(ncclResult_t code, char const* call) {
    auto const ended = nccl_settled(comm_, code, me_, options_.deadline,
                                    [&] { throw watch_.late(call, options_.deadline); });
    if (ended != ncclSuccess) throw reported(call, ended);
  }

  /// Waits for all work on the stream.
  /// @throws transport_error: the first failure, on every call; deadline_exceeded without progress
  ///         for that long
  /// @param look() is called after each poll of the stream, also the last; it may throw
  template <class Look>
  void synchronize(Look look) {
    failure_.rethrow();
    if (comm_ == nullptr) return;  // closed: that has waited for everything
    guarded([&] {
      watch_.wait_for(stream_, options_.deadline, [&] {
        look();
        check_async();
      });
    });
  }
  /// Waits for an event on the stream. `call` is the caller, for errors.
  /// @throws transport_error; deadline_exceeded without progress for that long
  void wait_for(cudaEvent_t event, char const* call) {
    guarded([&] { watch_.wait_for(event, call, options_.deadline, [&] { check_async(); }); });
  }

  /// Enqueues an all-gather of the first row of the staging memory, of this many bytes, to the rows
  /// after it.
  void gather_staged(std::size_t bytes) {
    watch_.begin_exchange(stream_);
    for (auto const peer : first_n<rank_id>(static_cast<int>(size_)))
      if (peer != me_) watch_.add_peer(peer);
    settle(ncclAllGather(staging_.get(), staging_.get() + staged_row, bytes, ncclUint8, comm_,
                         stream_),
           "ncclAllGather");
    watch_.end_exchange(stream_);
  }
  /// The same from and to pinned host memory.
  void gather_pinned() {
    auto const all = size_ * pinned_row;
    cuda_require(
        cudaMemcpyAsync(staging_.get(), pinned_.get(), pinned_row, cudaMemcpyHostToDevice, stream_),
        me_, "cudaMemcpyAsync");
    gather_staged(pinned_row);
    cuda_require(cudaMemcpyAsync(pinned_.get() + pinned_row, staging_.get() + staged_row, all,
                                 cudaMemcpyDeviceToHost, stream_),
                 me_, "cudaMemcpyAsync");
  }

  /// Ends NCCL's work on the stream, and releases the communicator. NCCL's call returns only when
  /// the graphs that contain it are destroyed, which their owner may do later: then a new thread
  /// waits for that.
  void abort() noexcept {
    auto* const comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) return;
    try {
      if (watch_.has_captured()) return std::thread{[comm] { ncclCommAbort(comm); }}.detach();
    } catch (std::system_error const&) {  // no thread can be started: this one waits
    }
    ncclCommAbort(comm);
  }
  /// Releases ownership of NCCL's communicator.
  [[nodiscard]] ncclComm_t release() { return std::exchange(comm_, nullptr); }

 private:
  void check_async() {
    auto state = ncclSuccess;
    nccl_require(ncclCommGetAsyncError(comm_, &state), me_, "ncclCommGetAsyncError");
    if (state == ncclSuccess || state == ncclInProgress) return;
    throw reported("synchronize", state);
  }
  [[nodiscard]] transport_error reported(char const* call, ncclResult_t error) const {
    return {watch_.failed_rank(), text(call, ": NCCL reports ", ncclGetErrorString(error), " (",
                                       static_cast<int>(error), "): ", watch_.text())};
  }

  /// Aborts if that is allowed, and waits a little until nothing writes to memory any more.
  void fail(std::exception_ptr failure) noexcept {
    failure_.set(std::move(failure));
    if (options_.may_abort) abort_and_drain();
  }
  void abort_and_drain() noexcept {
    abort();
    drain(stream_, drain_time);
  }

  ncclComm_t comm_;
  cudaStream_t stream_;
  rank_id me_;
  std::size_t size_;
  nccl_options options_;
  cuda_watch watch_;
  cuda_bytes staging_;
  pinned_bytes pinned_;
  failure_state failure_;
};

}  // namespace fssdp::detail
