// SPDX-License-Identifier: Apache-2.0
/// Binds a communicator of torch's devices to the stream on which its caller computes.
#pragma once

#include "fssdp/memory/torch_tensor.hpp"  // ahead of torch's own headers

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/c10d/torch_event.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/memory/torch_view.hpp"

namespace fssdp {

/// A side_stream_communicator on a stream of torch's own pools. Submitted work runs after all that
/// the caller has enqueued on torch's current stream so far. The caller's stream continues, and
/// waits for the communicator only in `await`. The host does not wait. On the CPU, which has no
/// streams, all work has run when a call returns.
///
/// The caller's stream is the current one at the time of the call. Memory of torch's allocator that
/// the caller releases before it has awaited its use must be kept (`keep`).
/// @cost two events per submitted work, and one per wait
template <device_communicator Comm>
requires std::same_as<stream_type_of<Comm>, torch_current_stream>
class torch_side_stream {
 public:
  using stream_type = torch_current_stream;
  using memory_space = device_memory;

  /// @param device of the communicator, with its index
  /// @pre the communicator outlives it
  /// @throws exceptions of torch
  torch_side_stream(Comm& comm, c10::Device device)
      : comm_{&comm}, stream_{stream_for(device)}, is_enqueued_{device} {
    has_run_.reserve(most_events);
    while (has_run_.size() < most_events) has_run_.emplace_back(device);
  }

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] c10::Device device() const { return stream_.device(); }
  /// The stream of submitted work.
  [[nodiscard]] c10::Stream stream() const { return stream_; }

  template <class Post>
  void exchange(Post&& post) {
    submit([&post](Comm& comm) { comm.exchange(post); });
  }
  /// @throws exceptions of the work, and of torch
  template <class Work>
  void submit(Work work) {
    is_enqueued_.record(callers());
    is_enqueued_.block(stream_);
    prepare(std::move(work));
    has_run_[(position_ + 1) % most_events].record(stream_);
    ++position_;
  }
  template <class Work>
  void prepare(Work work) {
    auto const beside = c10::StreamGuard{stream_};
    work(*comm_);
  }
  void synchronize() {
    prepare([](Comm& comm) { fssdp::synchronize(comm); });
  }
  /// Runs on the host, at once; `position` does not count it.
  void gather_values(std::span<std::byte const> mine,
                     std::span<std::byte> all) requires gathering_communicator<Comm> {
    prepare([&](Comm& comm) { comm.gather_values(mine, all); });
  }

  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// @pre `position()` has returned this position or a later one
  void await(std::uint64_t position) {
    if (position != 0) has_run_[position % most_events].block(callers());
  }
  /// Whether the work up to a position has run. For positions with more than 31 later ones, it may
  /// answer for a later one.
  /// @pre as await
  [[nodiscard]] bool has_run(std::uint64_t position) const {
    return position == 0 || has_run_[position % most_events].is_over();
  }
  void clear(std::span<std::byte> memory) {
    if (memory.empty()) return;
    (void)detail::torch_view(memory.data(), memory.size(), c10::kByte, device()).zero_();
  }

  /// Keeps the memory of a tensor: when it is released, torch's allocator does not reuse it before
  /// all work that was submitted by then has run.
  void keep(at::Tensor const& tensor) const {
    guard().recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  }

 private:
  static constexpr std::size_t most_events = 32;

  [[nodiscard]] static c10::Stream stream_for(c10::Device device) {
    auto const of = c10::impl::VirtualGuardImpl{device.type()};
    constexpr auto is_urgent = true;  // its kernels are short, and other ranks wait for them
    return device.is_cpu() ? of.getStream(device) : of.getStreamFromGlobalPool(device, is_urgent);
  }
  [[nodiscard]] c10::impl::VirtualGuardImpl guard() const {
    return c10::impl::VirtualGuardImpl{stream_.device_type()};
  }
  [[nodiscard]] c10::Stream callers() const { return detail::torch_stream_of(device()); }

  Comm* comm_;
  c10::Stream stream_;
  detail::torch_event is_enqueued_;
  std::vector<detail::torch_event> has_run_;  // of the last positions; later ones cover older
  std::uint64_t position_ = 0;
};

/// `comm` on a side stream of torch's current stream: for a materializer over devices.
///
///     auto transfers = fssdp::c10d_device_communicator{group, device};
///     auto comm = fssdp::on_side_stream(transfers, device);
///     auto pools = fssdp::torch_memory{device};
///     auto layers = fssdp::materializer{
///         comm, {layouts, sizes, weights, gradients}, {.placement = solve},
///         {.replica_slots = 6, .partial_slots = 9, .memory = &pools}};
///     layers.acquire(l);  // work that is enqueued from here on can read the experts
///
/// @cost a stream of torch's pool and 33 events; no messages
/// @throws exceptions of torch
template <device_communicator Comm>
requires std::same_as<stream_type_of<Comm>, torch_current_stream>
[[nodiscard]] torch_side_stream<Comm> on_side_stream(Comm& comm, c10::Device device) {
  return {comm, device};
}

}  // namespace fssdp
