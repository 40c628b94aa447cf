// SPDX-License-Identifier: Apache-2.0
/// A communicator of NCCL's and a stream, as long as both work.
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

/// Calls NCCL, and waits for the stream with an eye on it. From the first failure on nothing is
/// enqueued any more; if the communicator may be aborted, it is, so that the stream ends.
class nccl_context {
 public:
  static constexpr std::size_t staged_row = 4096;  // bytes
  static constexpr std::size_t pinned_row = 512;
  static constexpr auto drain_time = std::chrono::milliseconds{200};

  /// Allocates its staging, which is freed in the end: that waits for the device.
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
  /// Where a kernel of a communicator that has not been aborted waits for ever, to free memory
  /// would wait as well: it is given up.
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
  /// Memory of the device: a row to send, and one from each rank.
  [[nodiscard]] std::span<std::byte> staging() const {
    return {staging_.get(), (size_ + 1) * staged_row};
  }
  /// Memory of the host that the device reads and writes: the same, of shorter rows.
  [[nodiscard]] std::span<std::byte> pinned() const {
    return {pinned_.get(), (size_ + 1) * pinned_row};
  }
  [[nodiscard]] bool has_failed() const { return failure_.has_failed(); }

  /// @throws poisoned_stream if something has failed before, or the communicator has been closed
  void check() const {
    failure_.check(me_);
    if (comm_ == nullptr)
      throw poisoned_stream{text("rank ", me_, ": this communicator has been closed")};
  }

  /// Runs `work`, which may throw: then the communicator has failed.
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
  /// The communicator has failed by what peers find out as well: they may still need what is under way, so
  /// only what does not end soon is aborted.
  void give_up(std::exception_ptr failure) noexcept {
    failure_.set(std::move(failure));
    drain(stream_, drain_time);
    if (options_.may_abort && query(stream_) == cudaErrorNotReady) abort_and_drain();
  }
  /// The communicator has failed, if it had not, and is aborted, whatever the options say.
  void abort(std::exception_ptr failure) noexcept {
    if (!has_failed()) failure_.set(std::move(failure));
    abort_and_drain();
  }
  /// Waits until NCCL has put on the stream what a call names. Not for the stream.
  /// @throws transport_error; deadline_exceeded if a peer does not come to connect
  void settle(ncclResult_t code, char const* call) {
    auto const ended = nccl_settled(comm_, code, me_, options_.deadline,
                                    [&] { throw watch_.late(call, options_.deadline); });
    if (ended != ncclSuccess) throw reported(call, ended);
  }

  /// Waits for all that is on the stream.
  /// @throws transport_error, also again and again: what has failed first; deadline_exceeded if
  ///         nothing has moved for that long
  /// @param look() is called after each look at the stream, also the last; it may throw
  template <class Look>
  void synchronize(Look look) {
    failure_.rethrow();
    if (comm_ == nullptr) return;  // closed: it has waited then
    guarded([&] {
      watch_.wait_for(stream_, options_.deadline, [&] {
        look();
        check_async();
      });
    });
  }
  /// Waits for an event on the stream, which `call` is about.
  /// @throws transport_error; deadline_exceeded if nothing has moved for that long
  void wait_for(cudaEvent_t event, char const* call) {
    guarded([&] { watch_.wait_for(event, call, options_.deadline, [&] { check_async(); }); });
  }

  /// Enqueues an all-gather: the first row of the staging, of so many bytes, to all rows behind it,
  /// one after the other.
  void gather_staged(std::size_t bytes) {
    watch_.begin_exchange(stream_);
    for (auto const peer : first_n<rank_id>(static_cast<int>(size_)))
      if (peer != me_) watch_.add_peer(peer);
    settle(ncclAllGather(staging_.get(), staging_.get() + staged_row, bytes, ncclUint8, comm_,
                         stream_),
           "ncclAllGather");
    watch_.end_exchange(stream_);
  }
  /// The same from pinned memory of the host to pinned memory of the host.
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

  /// Ends what NCCL does on the stream, and forgets the communicator, which is gone. NCCL comes
  /// back only when the graphs that it is in are destroyed, which whoever has them does later: then
  /// a thread of its own waits for that.
  void abort() noexcept {
    auto* const comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) return;
    try {
      if (watch_.has_captured()) return std::thread{[comm] { ncclCommAbort(comm); }}.detach();
    } catch (std::system_error const&) {  // no thread is to be had: it is this one that waits
    }
    ncclCommAbort(comm);
  }
  /// Takes NCCL's communicator from this one.
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

  /// Aborts if that is allowed, and waits a little until nothing writes any more.
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
